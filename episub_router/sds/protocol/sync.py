"""When to send a sync message: about one per interval and group (S13)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from episub_router.protocol.types import NEVER, Time
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.group import Group
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.responses import confirming_rank
from episub_router.util.bounded import put_last

_MAX_NAMED = 1024
_CONFIRMING = 3
"""Members that would confirm a message after one `confirm_delay` and within two, on average; one
speaks and the others hear it. Where all stay silent, twice as many follow in as much time again,
and so on: so members that were made up cost only the logarithm of their number (chosen)."""
_IDLE = 8
"""By how much intervals get longer at most while nothing new is said (chosen)."""
_MANY = 250
"""Channels of a host beyond which their intervals get longer in fewer steps (chosen)."""
_SOON = 5.0
"""Seconds after a message from a member that lacks a head of ours (chosen)."""
_GAP = 1.0
"""Seconds between two sync messages of one participant (chosen)."""
_SPREAD = 0.1
"""Seconds per member, so that one of a large group speaks first (chosen)."""
_LARGEST = 256
"""Members beyond which waits don't grow, and authors that wait for us: others may have been made up
(chosen)."""


@dataclass(eq=False)
class SyncTimer:
    """Speaks when, for an interval, nobody has said all that we would say.

    A member whose heads were named by others stays silent: what it has, the group knows of.
    A member that receives a message that doesn't name its heads speaks sooner, since the sender
    may lack them. So does one that received a message that nobody but its author has named: its
    author waits for that. The waits are spread over a time that grows with the group, so that
    the first to speak silences the others.
    """

    me: SenderId
    params: SdsParams
    rng: random.Random
    group: Group
    channels: int = 1
    """Those of our host: with many, intervals get long sooner."""
    _last: Time = -1e18
    _idle: int = 1
    """By how much intervals are longer, since nothing new is said."""
    _named: dict[MessageId, None] = field(default_factory=dict)
    # Why we would speak, each with when: the interval is over, someone lacks a head of
    # ours, a repair request is due, an author waits.
    _interval_at: Time = NEVER
    _lacking_at: Time = NEVER
    _request_at: Time = NEVER
    _unconfirmed: dict[SenderId, tuple[Time, Key]] = field(default_factory=dict)
    """By author, when we confirm, and the newest message: that confirms those before it."""

    def next(self) -> Time:
        confirm_at = min((at for at, _ in self._unconfirmed.values()), default=NEVER)
        return min(self._interval_at, self._lacking_at, self._request_at, confirm_at)

    def start(self, now: Time) -> None:
        """There is something to tell for the first time."""
        if self._interval_at == NEVER:
            self._restart(now)

    def received(self, key: Key, author: SenderId, now: Time) -> None:
        """A message of another member, which may want to see it confirmed."""
        self._idle = 1
        rank = confirming_rank(self.me, key[1], self.group.count(now)) / _CONFIRMING
        at = now + self.params.confirm_delay * (1 + math.log2(1 + rank))
        sooner, newest = self._unconfirmed.get(author, (at, key))
        put_last(self._unconfirmed, author, (min(at, sooner), max(key, newest)), _LARGEST)

    def note_message(
        self, named: Sequence[MessageId], by: SenderId, heads: dict[MessageId, None], now: Time
    ) -> None:
        """`by` named these ids, as history or as the message itself."""
        self._named.update(dict.fromkeys(named))
        confirmed = set(named)
        for author, (_, (_, newest)) in list(self._unconfirmed.items()):
            if newest in confirmed and author != by:
                del self._unconfirmed[author]
        if len(self._named) > _MAX_NAMED + len(heads):
            self._named = {i: None for i in self._named if i in heads}
        if heads.keys() <= self._named.keys():
            self._restart(now)
        elif self._lacking_at == NEVER:
            spread = max(_SOON, self._spread(now))
            self._lacking_at = now + _SOON + self.rng.random() * spread

    def hasten(self, now: Time) -> None:
        """A repair request waits for a message to travel with."""
        if self._request_at == NEVER:
            self._request_at = max(now, self._last + _GAP) + self.rng.random() * _GAP

    def sent(self, now: Time, *, content: bool = False) -> None:
        """We have just named our heads, in a message of whichever kind."""
        if content:
            self._idle = 1
        self._last = now
        self._request_at = NEVER
        self._unconfirmed.clear()
        self._restart(now)

    def _spread(self, now: Time) -> float:
        """Seconds, more of them for a larger group."""
        return min(self.group.count(now), _LARGEST) * _SPREAD

    def _restart(self, now: Time) -> None:
        self._named.clear()
        self._lacking_at = NEVER
        interval = self.params.sync_interval * self._idle
        self._idle = min(_IDLE, 2 * self._idle * (1 + self.channels // _MANY))
        spread = max(interval / 2, self._spread(now))
        self._interval_at = now + interval + self.rng.random() * spread
