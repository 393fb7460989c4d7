"""The message cache: payloads are kept for a while, their ids for longer (E41)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from episub_router.protocol.params import SEEN_MESSAGES, BroadcastParams
from episub_router.protocol.plumtree.missing_messages import MissingMessage
from episub_router.protocol.types import MessageId, PeerId, SourceId, Time


class CachedMessage:
    """One message: its payload while it is cached, its id until this entry expires."""

    __slots__ = (
        "accepted_at",
        "along",
        "arrived_at",
        "cached",
        "hops",
        "id",
        "missing",
        "old",
        "parent",
        "payload",
        "served",
        "size",
        "source",
    )

    def __init__(
        self,
        id: MessageId,
        hops: int,
        payload: object,
        size: int,
        accepted_at: Time,
        source: SourceId | None,
        parent: PeerId | None,
        arrived_at: Time,
        old: bool,
        along: SourceId | None,
        missing: MissingMessage | None,
    ) -> None:
        self.id = id
        self.source = source
        self.along = along
        """Root of the tree that it goes along; None for the default tree."""
        self.missing = missing
        """What was known of it while it was missing, if it had to be asked for."""
        self.hops = hops
        """Links from the publisher to us; 0 for our own."""
        self.parent = parent
        """The neighbour that pushed it, or replaces that one as our parent; None for our own."""
        self.old = old
        """Whether it may have been in flight for long when it arrived."""
        self.payload = payload
        self.size = size
        self.arrived_at = arrived_at
        """When its first copy arrived, before validation."""
        self.accepted_at = accepted_at
        self.cached = True
        self.served: dict[PeerId, int] | None = None
        """How often a GRAFT was answered with it, by peer."""


_FORGOTTEN = 64
"""Places of expired messages that are worth giving back together."""


class MessageStore:
    """Payloads are bounded by age, count and bytes, ids by age and count."""

    __slots__ = ("_by_id", "_bytes", "_first_cached", "_first_seen", "_params", "_seen")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._by_id: dict[MessageId, CachedMessage] = {}
        self._seen: list[CachedMessage] = []
        """The messages in the order in which they were accepted: first those that have expired,
        then those whose id is known, and the newest with their payloads."""
        self._first_seen = 0
        self._first_cached = 0
        self._bytes = 0

    def __contains__(self, id: MessageId) -> bool:
        return id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def cached_messages(self) -> int:
        return len(self._seen) - self._first_cached

    @property
    def cached_bytes(self) -> int:
        return self._bytes

    def get(self, id: MessageId) -> CachedMessage | None:
        """The message, if its payload is still cached."""
        stored = self._by_id.get(id)
        return stored if stored is not None and stored.cached else None

    def entry(self, id: MessageId) -> CachedMessage:
        """The message, cached or not; raises KeyError if its id isn't known."""
        return self._by_id[id]

    def add(
        self,
        id: MessageId,
        hops: int,
        payload: object,
        size: int,
        now: Time,
        source: SourceId | None = None,
        parent: PeerId | None = None,
        *,
        arrived_at: Time | None = None,
        old: bool = False,
        along: SourceId | None = None,
        missing: MissingMessage | None = None,
    ) -> None:
        """Store a new message, and remove what is too old or too much."""
        arrived = now if arrived_at is None else arrived_at
        stored = CachedMessage(
            id, hops, payload, size, now, source, parent, arrived, old, along, missing
        )
        self._by_id[id] = stored
        self._seen.append(stored)
        self._bytes += size
        self.expire(now)

    def replace_parent(self, parent: PeerId, by: PeerId, since: Time) -> None:
        """Messages that `parent` pushed after `since` have the parent `by` now."""
        for stored in self._newest_first(self._first_seen):
            if stored.accepted_at < since:
                return
            if stored.parent == parent:
                stored.parent = by

    def recent(self, since: Time) -> Iterator[CachedMessage]:
        """Cached messages accepted after `since`, newest first, except old ones: joining nodes
        would announce those to each other forever."""
        for stored in self._newest_first(self._first_cached):
            if stored.accepted_at < since:
                return
            if not stored.old:
                yield stored

    def _newest_first(self, first: int) -> Iterator[CachedMessage]:
        return islice(reversed(self._seen), len(self._seen) - first)

    def drop_payloads(self) -> None:
        """Remove all payloads; the ids stay known."""
        for stored in self._newest_first(self._first_cached):
            self._uncache(stored)
        self._first_cached = len(self._seen)

    def _uncache(self, stored: CachedMessage) -> None:
        self._bytes -= stored.size
        stored.payload = stored.served = stored.missing = None
        stored.cached = False

    def expire(self, now: Time) -> None:
        """Remove what is too old or beyond a bound."""
        params = self._params
        seen = self._seen
        count = len(seen)
        first = self._first_cached
        oldest = now - params.cache_ttl
        while first < count and (
            seen[first].accepted_at < oldest
            or count - first > params.cache_messages
            or self._bytes > params.cache_bytes
        ):
            self._uncache(seen[first])
            first += 1
        self._first_cached = first
        first = self._first_seen
        oldest = now - params.seen_ttl
        while first < count and (seen[first].accepted_at < oldest or count - first > SEEN_MESSAGES):
            del self._by_id[seen[first].id]
            first += 1
        self._first_seen = first
        if first >= _FORGOTTEN:
            del seen[:first]
            self._first_cached -= first
            self._first_seen = 0
