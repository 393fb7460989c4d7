"""Memory and CPU time of a benchmark's processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path


def resident() -> Iterator[tuple[str, int]]:
    """(command, bytes) of the children of this process and of theirs."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[str, int]] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, rest = (entry / "stat").read_text().rsplit(")", 1)
            parts = rest.split()
            parents[int(entry.name)] = int(parts[1])
            found[int(entry.name)] = (name.split("(", 1)[1], int(parts[21]) * page)
        except OSError:
            continue
    for pid, told in found.items():
        above = parents.get(pid, 0)
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        if above == os.getpid():
            yield told


def cpu_seconds() -> float:
    """User and system time of this process, of its children and theirs, living or reaped."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parts = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(parts[1])
            used[int(entry.name)] = sum(map(int, parts[11:15])) / tick
    total = 0.0
    for pid, seconds in used.items():
        above = pid
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        total += seconds if above else 0.0
    return total


class Watch(threading.Thread):
    """The most memory that the JVM, and all Python processes together, had."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jvm = self.python = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            now = list(resident())
            self.jvm = max(self.jvm, sum(size for name, size in now if name == "java"))
            self.python = max(self.python, sum(size for name, size in now if name != "java"))

    def stop(self) -> None:
        self._over.set()
        self.join()
