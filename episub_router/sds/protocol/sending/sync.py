"""When to send a sync message: about one per interval and group (S13)."""

from __future__ import annotations

import random
from collections.abc import Iterable

from episub_router.protocol.types import NEVER, Time
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams

_MAX_NAMED = 1024


class SyncTimer:
    """Speaks when, for an interval, nobody has said all that we would say.

    A member whose frontier was named by others stays silent: what it has, the group knows of.
    One who hears a message that doesn't name its frontier speaks sooner, since the sender may
    lack it. So does one who received a message that nobody but its author has named: its
    author waits for that. The waits are spread over a time that grows with the group, so that
    the first to speak silences the others.
    """

    def __init__(self, params: SdsParams, rng: random.Random) -> None:
        self._params = params
        self._rng = rng
        self._last: Time = -1e18
        self._named: dict[MessageId, None] = {}
        # Why we would speak, each with when: the interval is over, someone lacks a head of
        # ours, a repair request is due, an author waits.
        self._interval_at: Time = NEVER
        self._lacking_at: Time = NEVER
        self._request_at: Time = NEVER
        self._unconfirmed: dict[MessageId, tuple[SenderId, Time]] = {}

    def next(self) -> Time:
        confirm_at = next(iter(self._unconfirmed.values()))[1] if self._unconfirmed else NEVER
        return min(self._interval_at, self._lacking_at, self._request_at, confirm_at)

    def start(self, now: Time) -> None:
        """There is something to tell for the first time."""
        if self._interval_at == NEVER:
            self._restart(1, now)

    def received(self, message_id: MessageId, author: SenderId, members: int, now: Time) -> None:
        """A message of another member, who may want to see it confirmed."""
        at = self._spread(self._params.confirm_delay, members, now)
        self._unconfirmed[message_id] = (author, at)
        if len(self._unconfirmed) > _MAX_NAMED:
            del self._unconfirmed[next(iter(self._unconfirmed))]

    def heard(
        self,
        named: Iterable[MessageId],
        by: SenderId,
        heads: dict[MessageId, None],
        members: int,
        now: Time,
    ) -> None:
        """`by` named these ids, as history or as the message itself."""
        for message_id in named:
            self._named[message_id] = None
            if message_id in self._unconfirmed and self._unconfirmed[message_id][0] != by:
                del self._unconfirmed[message_id]
        if len(self._named) > _MAX_NAMED + len(heads):
            self._named = {i: None for i in self._named if i in heads}
        if all(head in self._named for head in heads):
            self._restart(members, now)
        elif self._lacking_at == NEVER:
            self._lacking_at = self._spread(self._params.sync_soon, members, now)

    def hasten(self, now: Time) -> None:
        """A repair request waits for a message to travel with."""
        if self._request_at == NEVER:
            soon = max(now, self._last + self._params.sync_gap)
            self._request_at = soon + self._rng.random() * self._params.sync_gap

    def sent(self, members: int, now: Time) -> None:
        """We have just named our frontier, in a message of whichever kind."""
        self._last = now
        self._request_at = NEVER
        self._unconfirmed.clear()
        self._restart(members, now)

    def _restart(self, members: int, now: Time) -> None:
        self._named.clear()
        self._lacking_at = NEVER
        interval = self._params.sync_interval
        spread = max(interval / 2, members * self._params.sync_spread)
        self._interval_at = now + interval + self._rng.random() * spread

    def _spread(self, delay: float, members: int, now: Time) -> Time:
        return now + delay + self._rng.random() * max(delay, members * self._params.sync_spread)
