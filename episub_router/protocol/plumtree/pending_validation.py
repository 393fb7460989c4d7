"""Pending validation: payloads that have arrived and are still being validated.

Nothing about them is trusted yet: neither the hop count nor that the message exists. A second
copy counts as a duplicate only once the first has proved valid.
"""

from __future__ import annotations

from typing import NamedTuple

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import MessageId, PeerId, SourceId, Time

MAX_PENDING = 1024
"""Messages in validation at most. Ours: more than a Pubsub validates at once."""

_COPIES = 32
"""Copies remembered of one message; the active view is smaller."""


class Copy(NamedTuple):
    """One copy of a message: its hop count, when it arrived, and the tree that it came along."""

    hops: int
    arrived_at: Time
    along: SourceId | None = None


class _PendingMessage:
    """The copies of one message that are in validation, by sender."""

    __slots__ = ("copies", "until")

    def __init__(self, until: Time) -> None:
        self.until = until
        self.copies: dict[PeerId, Copy] = {}


class PendingValidation:
    """Bounded in messages (`MAX_PENDING`), in copies of each, and in time, since a driver need not
    report rejections."""

    __slots__ = ("_by_id", "_params")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._by_id: dict[MessageId, _PendingMessage] = {}

    def __contains__(self, id: MessageId) -> bool:
        return id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def add(
        self,
        peer: PeerId,
        id: MessageId,
        hops: int,
        now: Time,
        along: SourceId | None = None,
    ) -> bool:
        """A copy arrived from `peer`; False if there is no room to remember it."""
        self.expire(now)
        pending = self._by_id.get(id)
        if pending is None:
            if len(self._by_id) >= MAX_PENDING:
                return False
            pending = self._by_id[id] = _PendingMessage(now + self._params.validation_timeout)
        if len(pending.copies) < _COPIES:
            pending.copies.setdefault(peer, Copy(hops, now, along))
        return True

    def pop(self, id: MessageId) -> dict[PeerId, Copy]:
        """One copy proved valid: returns all copies, by sender."""
        pending = self._by_id.pop(id, None)
        return {} if pending is None else pending.copies

    def remove(self, id: MessageId, peer: PeerId) -> None:
        """The copy from `peer` proved invalid."""
        pending = self._by_id.get(id)
        if pending is not None:
            pending.copies.pop(peer, None)
            if not pending.copies:
                del self._by_id[id]

    def expire(self, now: Time) -> None:
        """Remove what has not proved valid in time."""
        while self._by_id:
            first = next(iter(self._by_id))
            if self._by_id[first].until > now:
                return
            del self._by_id[first]

    def clear(self) -> None:
        self._by_id.clear()
