"""Child processes of tests. They end with the test, and with pytest, however that ends.

Each child leads a process group, and what it starts itself ends with it. A watchdog process
that holds a pipe from pytest kills the groups that are left when pytest is gone. It runs
before the first child starts; pytest killed between a child's start and the next line is the
one case that leaves it behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol

import trio

_WATCHDOG = """
import os, signal, sys
groups = {}
for line in sys.stdin:
    change, group = line.split()
    if change == "add":
        groups[int(group)] = None
    else:
        groups.pop(int(group), None)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


class Watchdog:
    """Kills the groups of the children that are registered when this process ends.

    Not with PR_SET_PDEATHSIG: that is sent when the thread ends that started the child, and
    trio starts children in threads that don't last.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHDOG],
            stdin=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self._groups: dict[int, None] = {}

    def add(self, group: int) -> None:
        self._groups[group] = None
        self._write(f"add {group}\n")

    def kill(self, group: int) -> None:
        """Kill the group, unless it has been killed before."""
        if group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            del self._groups[group]
            self._write(f"remove {group}\n")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)


_watchdogs: dict[int, Watchdog] = {}
"""By the process that started it: at most one for each worker of pytest-xdist."""
_starting = threading.Lock()


def _watchdog() -> Watchdog:
    with _starting:
        if os.getpid() not in _watchdogs:
            _watchdogs[os.getpid()] = Watchdog()
        return _watchdogs[os.getpid()]


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run `command` while the block lasts; `options` are those of `subprocess.Popen`."""
    watchdog = _watchdog()
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        watchdog.add(process.pid)
        try:
            yield process
        finally:
            kill(process)


def run(
    command: Sequence[str],
    *,
    check: bool = False,
    timeout: float | None = None,
    capture_output: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` for a child; raises the same errors."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with child(command, **options) as process:
        output, errors = process.communicate(timeout=timeout)
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


async def open_child(command: Sequence[str], **options: Any) -> trio.Process:
    """`trio.lowlevel.open_process` for a child, to be ended with `end`."""
    watchdog = _watchdog()
    process: trio.Process = await trio.lowlevel.open_process(
        command, start_new_session=True, **options
    )
    watchdog.add(process.pid)
    return process


def watch(group: int) -> None:
    """Have a process group that something else started end with pytest; `kill` ends it before."""
    _watchdog().add(group)


class Process(Protocol):
    """A process that leads a group."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int: ...


async def end(process: Process) -> None:
    """Kill the child with all that it started, and wait for its end."""
    kill(process)
    with trio.CancelScope(shield=True):
        await process.wait()


@asynccontextmanager
async def trio_child(command: Sequence[str], **options: Any) -> AsyncIterator[trio.Process]:
    """Run `command` while the block lasts."""
    process = await open_child(command, **options)
    try:
        yield process
    finally:
        await end(process)


def kill(process: subprocess.Popen[Any] | Process) -> None:
    """Kill the child with all that it started; nothing happens if that was done before."""
    _watchdog().kill(process.pid)
