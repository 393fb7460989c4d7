"""The kinds of nodes that Shadow runs: each takes a script of test-plans."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interop.harness.kinds import INTEROP, ROOT

_SHIM = Path(__file__).parent / "shim"
_GO = INTEROP / "go" / "bin"


@dataclass(frozen=True, slots=True)
class Kind:
    """How nodes of one kind are started."""

    program: Path
    arguments: Callable[[int], list[str]]
    """From the bytes from which on Episub sends messages in pieces; 0: none."""
    model: str
    """The simulator's router that is compared with it."""
    built: bool = True
    """Whether `make interop-peers` makes the program."""

    def problem(self) -> str | None:
        """Why it can't run here; None if it can."""
        if self.built and not self.program.exists():
            return f"{self.program.name} is not built: run `make interop-peers`"
        return None

    def prepare(self) -> None:
        """Have Python compile all that its nodes import: a run that does it has other times."""
        if not self.built:
            subprocess.run(
                [self.program, *self.arguments(0), "--help"],
                env=self.environment() | {"PYTHONDONTWRITEBYTECODE": ""},
                stdout=subprocess.DEVNULL, check=True,
            )  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Of its process: what differs from run to run is fixed."""
        if self.built:
            return {"GOLOG_LOG_LEVEL": "dpanic"}
        # The interpreter's own path is the environment's: a virtual one is not found in Shadow.
        path = [str(_SHIM), str(ROOT), *(entry for entry in sys.path if "packages" in entry)]
        return {
            "PYTHONPATH": ":".join(path),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            # Its own folder: `ctypes` has a compiler look for libraries, whose files have the same
            # names on all hosts, and in one folder the real time says which host meets another's.
            "TMPDIR": ".",
        }


def _python(*arguments: str) -> Callable[[int], list[str]]:
    return lambda threshold: [
        "-m",
        "interop.plans.node",
        *arguments,
        *([f"--piece-threshold={threshold}"] if threshold else []),
    ]


_INTERPRETER = Path(sys.executable).resolve()

KINDS = {
    "episub": Kind(_INTERPRETER, _python("--router=episub"), "episub", built=False),
    "py": Kind(_INTERPRETER, lambda _: _python("--router=gossipsub")(0), "gossipsub", built=False),
    "episub-go": Kind(
        _GO / "episub",
        lambda threshold: [f"--piece-threshold={threshold}"] if threshold else [],
        "episub",
    ),
    "go": Kind(_GO / "gossipsub", lambda _: [], "gossipsub"),
}
