"""Large pages for a process's memory, where Linux gives them (madvise(2), Linux 6.1 or later).

An event of a large run touches dozens of places in hundreds of megabytes. With pages of 4 KiB
the processor looks up where each of them is, page table after page table; with pages of 2 MiB it
knows.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

_PAGE = 2 << 20
"""Bytes of a large page."""

WORTHWHILE = 64 << 20
"""Bytes by which memory grows before it is looked at. Chosen: a hundred pages or so."""

_HUGEPAGE = 14
_COLLAPSE = 25
"""MADV_HUGEPAGE and MADV_COLLAPSE: what comes into a range, and what is in it already."""


class HugePages:
    """Asks for large pages whenever the process has grown. Does nothing where there are none."""

    def __init__(self) -> None:
        self._advise = None
        if sys.platform == "linux":
            self._advise = getattr(ctypes.CDLL(None), "madvise", None)
        self._covered = resident() if self._advise else 0

    def follow(self) -> None:
        """Ask for those of the memory that has been taken since the last time."""
        if self._advise is not None and resident() >= self._covered + WORTHWHILE:
            self.ask()
            self._covered = resident()

    def ask(self) -> None:
        """Ask for those of all memory that is no file's."""
        if self._advise is None:
            return
        for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
            place, access, _, _, inode, *name = line.split(maxsplit=5)
            if access != "rw-p" or inode != "0" or name not in ([], ["[heap]"]):
                continue
            start, end = (int(address, 16) for address in place.split("-"))
            start, end = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
            if start < end:
                for advice in (_HUGEPAGE, _COLLAPSE):
                    # Where the kernel has none to give, pages stay as they are.
                    self._advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()
