"""Time that counts only while somebody is there."""

from __future__ import annotations

from episub_router.protocol.types import NEVER, Time

ROUNDING = 1e-6
"""Seconds by which an elapsed time is rounded where it was turned into a time and back."""


class Presence:
    """Seconds during which a peer could be asked, or another member sent something.

    What is missing can't be found while nobody is there, so the time to give it up rests.
    `window` (s) is how long a member counts as there after its last message.
    """

    def __init__(self, window: float, now: Time) -> None:
        self._window = window
        self._peers = 0
        self._heard_until: Time = now
        self._elapsed = 0.0
        self._at = now

    def note(self, now: Time) -> None:
        """Another member broadcast something."""
        self.elapsed(now)
        self._heard_until = now + self._window

    def peers(self, count: int, now: Time) -> None:
        """How many peers can be asked."""
        self.elapsed(now)
        self._peers = count

    def anybody(self, now: Time) -> bool:
        """Whether somebody is there."""
        return self._peers > 0 or now < self._heard_until

    def elapsed(self, now: Time) -> float:
        """Seconds in company since the start."""
        until = now if self._peers else min(now, self._heard_until)
        self._elapsed += max(0.0, until - self._at)
        self._at = max(self._at, now)
        return self._elapsed

    def when(self, elapsed: float) -> Time:
        """When `elapsed` will be reached as things are; NEVER if nobody stays that long."""
        if elapsed == NEVER:
            return NEVER
        at = self._at + max(0.0, elapsed - self._elapsed)
        return at if self._peers or at <= self._heard_until else NEVER
