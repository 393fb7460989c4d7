"""Telling new frames from repeated ones, by the sequence ids that their sender counts (E42)."""

from __future__ import annotations

WINDOW = 128
"""Frames; chosen: four of py-libp2p's send queues (32), in which frames overtake each other."""


class ReplayWindow:
    """A sliding window over the sequence ids of one sender.

    Frames may arrive in any order inside the window, and a jump forward is legal.
    """

    __slots__ = ("_highest", "_seen", "_size")

    def __init__(self, size: int = WINDOW) -> None:
        self._size = size
        self._highest: int | None = None
        self._seen = 0
        """Bit i stands for the sequence id `_highest - i`."""

    def accept(self, seq: int) -> bool:
        """Note `seq`; False if it came before, or is too old to tell."""
        if self._highest is None:
            self._highest = seq
        if seq > self._highest:
            ahead = seq - self._highest
            full = (1 << self._size) - 1
            self._seen = self._seen << ahead & full if ahead < self._size else 0
            self._highest = seq
        age = self._highest - seq
        if age >= self._size or self._seen >> age & 1:
            return False
        self._seen |= 1 << age
        return True
