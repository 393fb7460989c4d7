"""Runs of real processes: what they leave behind, and what they find."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop.testbed.lab import sandbox
from tests import children

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds for anything: processes start slowly on a busy machine."""

REASON = sandbox.problem()
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=str(REASON))
pytestmark = [pytest.mark.hosts]

TWO_HOSTS = "hosts = 2\nduration = {}\n[promises]\ndeadline = 1.0\n[traffic]\nrate = 5.0\n"


def command(scenario: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "interop.testbed", str(scenario), "--out", str(out), *more]


def processes_of(out: Path) -> list[int]:
    """The processes of the run in `out`: hosts have its path in their command, and the runner."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(out).encode() in line:
                found.append(int(entry.name))
    return found


@contextmanager
def started(scenario: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose hosts have started."""
    with children.child(command(scenario, out), cwd=ROOT, stdout=subprocess.PIPE) as process:
        # The runner says so once all hosts are one overlay.
        assert process.stdout is not None
        line = process.stdout.readline()
        assert b"are one overlay" in line, line
        yield process


def gone(out: Path) -> bool:
    """Whether all processes of the run end."""
    deadline = time.monotonic() + PATIENCE
    while processes_of(out):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_runner_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    scenario, out = tmp_path / "s.toml", tmp_path / "out"
    scenario.write_text(TWO_HOSTS.format(600.0))
    mounts = Path("/proc/self/mounts").read_text()
    with started(scenario, out) as process:
        # The runner, its other half inside, and two hosts.
        assert len(processes_of(out)) == 4
        process.send_signal(number)
        status = process.wait(PATIENCE)
        # Before the test kills what is left.
        assert gone(out)
    assert status == (-number if number == signal.SIGKILL else 128 + number)
    assert Path("/proc/self/mounts").read_text() == mounts


@needs_namespaces
def test_a_run_finds_what_was_published_and_delivered(tmp_path: Path) -> None:
    scenario, out = tmp_path / "s.toml", tmp_path / "out"
    scenario.write_text(TWO_HOSTS.format(4.0))
    done = children.run(command(scenario, out), cwd=ROOT, timeout=PATIENCE, check=False)
    result = json.loads((out / "result.json").read_text())
    assert (done.returncode, result["violations"]) == (0, [])
    figures = result["figures"]
    assert figures["asked"] == figures["accepted"] == figures["deliveries"] >= 10
    again = children.run(
        command(scenario, out, "--check", str(out)), cwd=ROOT, timeout=PATIENCE, check=False
    )
    assert again.returncode == 0
    assert json.loads((out / "result.json").read_text()) == result


@pytest.mark.parametrize(
    ("joining", "out", "said"),
    [(60.0, ".", "is not empty"), (0.01, "out", "hosts [0, 1] did not start within 0.01 s")],
)
def test_what_ends_a_run_at_once_is_said(
    joining: float, out: str, said: str, tmp_path: Path
) -> None:
    scenario = tmp_path / "s.toml"
    scenario.write_text(f"joining = {joining}\n" + TWO_HOSTS.format(4.0))
    run = command(scenario, tmp_path / out)
    done = children.run(run, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert said in done.stderr.decode()


def test_without_tools_the_network_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda tool, path: None)
    assert sandbox.problem() == "`ip` is not there (Debian: apt-get install iproute2)"
