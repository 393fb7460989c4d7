"""Trickle: the timer of all upkeep (RFC 6206, section 4.2, without its suppression)."""

from __future__ import annotations

from random import Random


class Trickle:
    """Intervals that double from `least` to `most` seconds, with one round at a random time in the
    second half of each. An inconsistency brings the shortest one back."""

    __slots__ = ("_end", "_rng", "interval", "least", "most")

    def __init__(self, rng: Random, least: float, most: float) -> None:
        self._rng = rng
        self.least = least
        self.most = most
        self.interval = least
        self._end: float = 0.0
        """When the current interval ends."""

    def start(self, now: float) -> float:
        """Begin with the shortest interval; returns when the first round is due."""
        self.interval = self.least
        return self._begin(now)

    def next(self, now: float) -> float:
        """A round is done; returns when the next one is due."""
        self.interval = min(2 * self.interval, max(self.least, self.most))
        return self._begin(max(now, self._end))

    def _begin(self, at: float) -> float:
        self._end = at + self.interval
        return at + self.interval * (0.5 + 0.5 * self._rng.random())
