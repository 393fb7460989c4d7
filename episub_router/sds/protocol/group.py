"""The other members of the channel as far as they are there, and time that counts only then."""

from __future__ import annotations

from episub_router.protocol.types import NEVER, Time
from episub_router.sds.protocol.message import SenderId
from episub_router.util.bounded import put_last

ROUNDING = 1e-6
"""Seconds by which an elapsed time is rounded where it was turned into a time and back."""
MEMBERS = 4096
"""Senders of which something is kept in mind (chosen): bound of every table by sender."""
_MEMBER_TTL = 300.0
"""Seconds of silence after which a member doesn't count (chosen): ten sync intervals."""
_PRESENT_FOR = 3.0
"""Sync intervals for which a member counts as there after its last message (chosen)."""


class Group:
    """Who was heard lately or can be asked, and for how long somebody was there.

    What is missing can't be found while nobody is there, so the time to give it up rests.
    """

    def __init__(self, sync_interval: float, now: Time) -> None:
        self._window = _PRESENT_FOR * sync_interval
        self._heard: dict[SenderId, Time] = {}
        self._peers = 0
        self._heard_until: Time = now
        self._elapsed = 0.0
        self._at = now

    def note(self, sender: SenderId, now: Time) -> None:
        """Another member broadcast something."""
        put_last(self._heard, sender, now, MEMBERS)
        self.elapsed(now)
        self._heard_until = now + self._window

    def set_peers(self, count: int, now: Time) -> None:
        """How many peers can be asked."""
        self.elapsed(now)
        self._peers = count

    def present(self, now: Time) -> list[SenderId]:
        """The members that were heard lately."""
        self._let_go(now)
        return list(self._heard)

    def count(self, now: Time) -> int:
        """The group's size with ourselves."""
        self._let_go(now)
        return max(len(self._heard), self._peers) + 1

    def _let_go(self, now: Time) -> None:
        while self._heard:
            oldest = next(iter(self._heard))
            if now - self._heard[oldest] <= _MEMBER_TTL:
                break
            del self._heard[oldest]

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
