"""When to send a sync message: about one per interval and group (S13)."""

from __future__ import annotations

import random
from collections.abc import Iterable

from episub_router.protocol.types import NEVER, Time
from episub_router.sds.protocol.message import MessageId
from episub_router.sds.protocol.params import SdsParams

_MAX_NAMED = 1024


class SyncTimer:
    """Speaks when, for an interval, nobody has said all that we would say.

    A member whose frontier was named by others stays silent: what it has, the group knows of.
    One who hears a message that doesn't name its frontier speaks sooner, since the sender
    may lack it. The waits are spread over a time that grows with the group, so that the first
    to speak silences the others.
    """

    def __init__(self, params: SdsParams, rng: random.Random) -> None:
        self._params = params
        self._rng = rng
        self._at: Time = NEVER
        self._last: Time = -1e18
        self._named: dict[MessageId, None] = {}

    def next(self) -> Time:
        return self._at

    def start(self, now: Time) -> None:
        """There is something to tell for the first time."""
        if self._at == NEVER:
            self._wait(now, self._params.sync_interval, 1)

    def heard(
        self, named: Iterable[MessageId], heads: dict[MessageId, None], members: int, now: Time
    ) -> None:
        """Another member named these ids, as history or as the message itself."""
        self._named.update(dict.fromkeys(named))
        if len(self._named) > _MAX_NAMED + len(heads):
            self._named = {i: None for i in self._named if i in heads}
        if all(head in self._named for head in heads):
            self._wait(now, self._params.sync_interval, members)
        else:
            soon = self._params.sync_soon
            spread = max(soon, members * self._params.sync_spread)
            self._at = min(self._at, now + soon + self._rng.random() * spread)

    def hasten(self, now: Time) -> None:
        """A repair request waits for a message to travel with."""
        soon = max(now, self._last + self._params.sync_gap)
        self._at = min(self._at, soon + self._rng.random() * self._params.sync_gap)

    def sent(self, now: Time, members: int) -> None:
        """We have just named our frontier, in a message of whichever kind."""
        self._last = now
        self._wait(now, self._params.sync_interval, members)

    def _wait(self, now: Time, interval: float, members: int) -> None:
        self._named.clear()
        spread = max(interval / 2, members * self._params.sync_spread)
        self._at = now + interval + self._rng.random() * spread
