"""Joining late: finding the place in the group's log at which ours begins.

A newcomer that wants the last messages only asks one peer, by comparing logs, which clock the
first of them has. What has no clock above the one before it counts as met and is never taken.
"""

from __future__ import annotations

from episub_router.protocol.types import Time
from episub_router.sds.protocol.causal.log import Log
from episub_router.sds.protocol.clock import LamportClock
from episub_router.sds.protocol.effects import Effect, JoinedAt
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.range_hash import RangeHash
from episub_router.sds.protocol.reconciliation.ranges import LogComparison

_ROUNDS = 16
"""Comparisons to find a place: four find it among 65,536."""


class Joining:
    """`last`: how many messages a newcomer wants of what there is; None is all.

    `since` is None until the place is found, and 0 where all is wanted.
    """

    def __init__(self, last: int | None, log: Log, clock: LamportClock) -> None:
        self.last = last
        self.since = 0 if last is None else None
        self._log = log
        self._clock = clock

    @property
    def pending(self) -> bool:
        """Whether the place isn't known yet."""
        return self.since is None

    def begin(self, since: int, now: Time) -> list[Effect]:
        """The place is found. What we sent ourselves meanwhile is ours all the same.

        One in our future would keep out what honest members say until then.
        """
        since = min(since, self._clock.wall(now))
        if len(self._log):
            since = min(since, max(0, self._log.place(0)[0] - 1))
        self.restore(since)
        return [JoinedAt(since)]

    def restore(self, since: int) -> None:
        """The place as it was found before a restart."""
        self.since = since
        self._log.begin(since)

    def believes(self, since: int, now: Time) -> bool:
        """Whether a peer's place can be true: a clock too far ahead would keep out everybody."""
        return not self._clock.ahead(since, self._clock.wall(now))


class PlaceSearch:
    """The place of the `last`-th newest message of one peer's log, part by part."""

    def __init__(self, last: int) -> None:
        self.range = RangeHash(None, None, 0, b"")
        """What the peer is to be asked for next."""
        self.since: int | None = None
        """The result."""
        self._none = last == 0
        self._from_end = max(1, last)
        self._rounds = 0

    def narrow(self, answer: LogComparison) -> bool:
        """Go on with an answer. True where there is more to ask; then, or where the peer has
        nothing, `since` is None."""
        self._rounds += 1
        if answer.keys:
            self.since = self._before(answer.keys)
        elif answer.parts and self._rounds < _ROUNDS:
            return self._choose(answer)
        return False

    def _choose(self, answer: LogComparison) -> bool:
        for part in reversed(answer.parts):
            if self._from_end <= part.count:
                self.range = RangeHash(part.after, part.until, 0, b"")
                return True
            self._from_end -= part.count
        self.since = 0  # there are fewer
        return False

    def _before(self, keys: tuple[Key, ...]) -> int:
        ascending = sorted(keys)
        if self._from_end > len(ascending):
            return 0
        clock = ascending[-self._from_end][0]
        return clock if self._none else max(0, clock - 1)
