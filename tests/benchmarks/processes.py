"""Memory and CPU time of a benchmark's processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path


def _family() -> Iterator[tuple[int, str, list[str]]]:
    """(pid, command, the fields after it in /proc/PID/stat) of this process, its children and
    theirs."""
    found: dict[int, tuple[str, list[str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, rest = (entry / "stat").read_text().rsplit(")", 1)
            except OSError:
                continue
            found[int(entry.name)] = name.split("(", 1)[1], rest.split()
    for pid, (name, fields) in found.items():
        above = pid
        while above in found and above != os.getpid():
            above = int(found[above][1][1])
        if above == os.getpid():
            yield pid, name, fields


def resident() -> Iterator[tuple[str, int]]:
    """(command, bytes) of the children of this process and of theirs."""
    page = os.sysconf("SC_PAGE_SIZE")
    for pid, name, fields in _family():
        if pid != os.getpid():
            yield name, int(fields[21]) * page


def cpu_seconds() -> float:
    """User and system time of this process, of its children and theirs, living or reaped."""
    tick = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, fields[11:15])) for _, _, fields in _family()) / tick


class Watch(threading.Thread):
    """The most memory that the JVM, all Python processes together, and both at the same time
    had."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jvm = self.python = self.both = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            now = list(resident())
            jvm = sum(size for name, size in now if name == "java")
            python = sum(size for name, size in now if name != "java")
            self.jvm = max(self.jvm, jvm)
            self.python = max(self.python, python)
            self.both = max(self.both, jvm + python)

    def stop(self) -> None:
        self._over.set()
        self.join()
