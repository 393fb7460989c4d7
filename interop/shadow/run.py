"""Running Shadow, with a line of progress now and then."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from interop.shadow.scenario import Plan

RECEIVED = b'"Received Message"'
"""In each line that logs a copy of a message."""
_INTERVAL = 10.0
"""Seconds of wall clock between two lines of progress."""
_POLL = 0.1
"""Seconds between two looks at whether Shadow has ended."""
_TIME = re.compile(rb"at simtime (\d+)")
_TAIL = 64 * 1024
"""Bytes at the end of Shadow's log among which its latest time stands."""


class ShadowError(Exception):
    """Shadow could not run the plan."""


def find() -> str | None:
    """The program: what SHADOW names, or else `shadow` on the PATH."""
    return shutil.which(os.environ.get("SHADOW") or "shadow")


PROBLEM = (
    "there is no Shadow: build it (https://shadow.github.io/docs/guide/install_shadow.html), and "
    "have `shadow` on the PATH or name the program in SHADOW"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run took, in seconds."""

    wall: float
    cpu: float


def run(program: str, plan: Plan, config: Path, out: Path, say: Callable[[str], None]) -> Cost:
    """Run Shadow to its end. Raises ShadowError."""
    begin, before = time.monotonic(), os.times()
    log = out / "shadow.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [program, str(config)], stdout=file, stderr=subprocess.STDOUT, cwd=out
        )
        try:
            progress, said = _Progress(out), begin
            while process.poll() is None:
                if time.monotonic() - said >= _INTERVAL:
                    said = time.monotonic()
                    say(
                        f"{said - begin:.0f} s: virtual time {_virtual(log):.0f} of "
                        f"{plan.scenario.end:.0f} s, {progress.receipts():,} receipts"
                    )
                time.sleep(_POLL)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    after = os.times()
    if process.returncode:
        last = log.read_text(errors="replace").splitlines()[-3:]
        raise ShadowError(f"Shadow ended with {process.returncode}: {' | '.join(last)}")
    used = after.children_user + after.children_system
    return Cost(time.monotonic() - begin, used - before.children_user - before.children_system)


@dataclass(slots=True)
class _Progress:
    out: Path
    read: dict[Path, int] = field(default_factory=dict)
    """Bytes of each log that have been counted."""
    count: int = 0

    def receipts(self) -> int:
        """Copies of messages that the nodes have logged."""
        for path in self.out.glob("shadow/hosts/*/*.stdout"):
            with path.open("rb") as file:
                file.seek(self.read.get(path, 0))
                whole = file.read().rpartition(b"\n")[0]
            self.read[path] = self.read.get(path, 0) + len(whole)
            self.count += whole.count(RECEIVED)
        return self.count


def _virtual(log: Path) -> float:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        found = _TIME.findall(file.read())
    return int(found[-1]) / 1e9 if found else 0.0
