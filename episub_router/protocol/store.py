"""What was received: payloads for a while, ids for longer (E41)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import MessageId, PeerId, SourceId, Time


class Stored:
    """One message: its id is known as long as this stands, its payload until it is cleared."""

    __slots__ = (
        "at",
        "cached",
        "came",
        "hops",
        "id",
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
        now: Time,
        source: SourceId | None,
        parent: PeerId | None,
        came: Time,
        old: bool,
    ) -> None:
        self.id = id
        self.source = source
        self.hops = hops
        """Links that it took to reach us; 0 for our own."""
        self.parent = parent
        """Who brought it, or is to bring the next ones; None for our own."""
        self.old = old
        """Whether it may have been under way for long when it came."""
        self.payload = payload
        self.size = size
        self.came = came
        """When its first copy came, before validation."""
        self.at = now
        self.cached = True
        self.served: dict[PeerId, int] | None = None
        """How often a GRAFT was answered with it, by peer."""


class MessageStore:
    """Bounded by time and by size: payloads by count and bytes, ids by count."""

    __slots__ = ("_by_id", "_bytes", "_cached", "_params", "_seen")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._by_id: dict[MessageId, Stored] = {}
        self._seen: deque[Stored] = deque()
        self._cached: deque[Stored] = deque()
        self._bytes = 0

    def __contains__(self, id: MessageId) -> bool:
        return id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def cached_messages(self) -> int:
        return len(self._cached)

    @property
    def cached_bytes(self) -> int:
        return self._bytes

    def get(self, id: MessageId) -> Stored | None:
        """The message, if its payload is still cached."""
        stored = self._by_id.get(id)
        return stored if stored is not None and stored.cached else None

    def seen(self, id: MessageId) -> Stored:
        """The message, cached or not; it must have been seen."""
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
        came: Time | None = None,
        old: bool = False,
    ) -> None:
        """Store a new message, and let go of what is too old or too much."""
        stored = Stored(
            id, hops, payload, size, now, source, parent, now if came is None else came, old
        )
        self._by_id[id] = stored
        self._seen.append(stored)
        self._cached.append(stored)
        self._bytes += size
        self.expire(now)

    def replace_parent(self, parent: PeerId, by: PeerId, since: Time) -> None:
        """Messages that `parent` brought after `since` have another parent now."""
        for stored in reversed(self._seen):
            if stored.at < since:
                return
            if stored.parent == parent:
                stored.parent = by

    def recent(self, since: Time) -> Iterator[Stored]:
        """Cached messages that came after `since`, newest first, but for old ones: nodes that
        join would tell each other of them for ever."""
        for stored in reversed(self._cached):
            if stored.at < since:
                return
            if not stored.old:
                yield stored

    def drop_payloads(self) -> None:
        """Let go of all payloads; the ids stay known."""
        for stored in self._cached:
            self._uncache(stored)
        self._cached.clear()

    def _uncache(self, stored: Stored) -> None:
        self._bytes -= stored.size
        stored.payload = stored.served = None
        stored.cached = False

    def expire(self, now: Time) -> None:
        params = self._params
        cached = self._cached
        oldest = now - params.cache_ttl
        while cached and (
            cached[0].at < oldest
            or len(cached) > params.cache_messages
            or self._bytes > params.cache_bytes
        ):
            self._uncache(cached.popleft())
        seen = self._seen
        oldest = now - params.seen_ttl
        while seen and (seen[0].at < oldest or len(seen) > params.seen_messages):
            del self._by_id[seen.popleft().id]
