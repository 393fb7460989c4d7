"""Payloads that came in and are still being validated.

Nothing about them is trusted yet: not the hop count, not that the message exists. A second
copy counts as a duplicate only when the first has proved valid.
"""

from __future__ import annotations

from typing import NamedTuple

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import MessageId, PeerId, Time

_COPIES = 32
"""Copies remembered of one message; the active view is smaller."""


class Copy(NamedTuple):
    """One copy of a message: its hop count, and when it came."""

    hops: int
    came: Time


class Arrival:
    """The copies of one message that are in validation, by sender."""

    __slots__ = ("copies", "until")

    def __init__(self, until: Time) -> None:
        self.until = until
        self.copies: dict[PeerId, Copy] = {}


class ArrivingMessages:
    """Bounded in messages, in copies of each, and in time: a rejection is never reported."""

    __slots__ = ("_by_id", "_params")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._by_id: dict[MessageId, Arrival] = {}

    def __contains__(self, id: MessageId) -> bool:
        return id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, peer: PeerId, id: MessageId, hops: int, now: Time) -> bool:
        """A copy came from `peer`; False if there is no room to remember it."""
        self.expire(now)
        arrival = self._by_id.get(id)
        if arrival is None:
            if len(self._by_id) >= self._params.max_pending:
                return False
            arrival = self._by_id[id] = Arrival(now + self._params.validation_timeout)
        if len(arrival.copies) < _COPIES:
            arrival.copies.setdefault(peer, Copy(hops, now))
        return True

    def pop(self, id: MessageId) -> dict[PeerId, Copy]:
        """Validation of one copy ended well: all copies, by sender."""
        arrival = self._by_id.pop(id, None)
        return {} if arrival is None else arrival.copies

    def expire(self, now: Time) -> None:
        """Forget what was evidently rejected."""
        while self._by_id:
            first = next(iter(self._by_id))
            if self._by_id[first].until > now:
                return
            del self._by_id[first]

    def clear(self) -> None:
        self._by_id.clear()
