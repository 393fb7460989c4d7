"""The message cache: one record for each message, from its announcement, its validation and its
payload until its id is forgotten (E41)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from episub_router.protocol.messages import MAX_HOPS, Gossip, MessageSummary
from episub_router.protocol.params import SEEN_MESSAGES, BroadcastParams
from episub_router.protocol.types import NEVER, MessageId, PeerId, SourceId, Time

MAX_VALIDATING = 1024  # Messages at most. Chosen: more than a Pubsub validates at once
VALIDATION_TIMEOUT = 10.0  # Seconds until a payload counts as rejected. Chosen: twice py-libp2p's
MAX_HOLDERS = 32  # Peers known to have one message at most; the active view is smaller
_LARGE = 16 * 1024  # Bytes, for each of which ...
_LARGE_TAKES = 0.032  # ... announcements wait so many seconds. Measured: 96 KiB at 50 Mbit/s, 50
# nodes: 0.008 duplicates a node, p99 376 ms; without 0.148, 415 ms


def next_hops(hops: int) -> int:
    """The hop count to send on for what reached us in `hops`."""
    return min(hops + 1, MAX_HOPS)


class Copy(NamedTuple):
    """A copy in validation: its hop count, when it arrived, and the tree that it came along."""

    hops: int
    arrived_at: Time
    tree: SourceId | None = None


class GossipMessage:
    __slots__ = (
        "accepted_at", "announced_at", "arrived_at", "asked", "cached", "common_at", "copies",
        "holders", "hops", "id", "informant", "payload", "sender", "served", "size", "source",
        "tree",
    )  # fmt: skip

    def __init__(self, id: MessageId) -> None:
        self.id = id
        # Peers known to have it, with the hops that they named; None once every neighbour is.
        self.holders: dict[PeerId, int] | None = {}
        self.informant: PeerId | None = None  # The first neighbour to announce it, ...
        self.announced_at: Time = NEVER  # ... and when it did
        self.common_at: Time = NEVER  # When several neighbours had announced it
        self.asked: list[tuple[PeerId, Time]] = _NOBODY  # Who got a GRAFT for it, in order
        self.copies: dict[PeerId, Copy] | None = None  # In validation, by sender
        self.payload: object = None
        self.size = 0
        self.hops = 0  # Links from the publisher to us; 0 for our own
        self.source: SourceId | None = None
        self.tree: SourceId | None = None  # Root of the tree that it goes along; None: the shared
        self.sender: PeerId | None = None  # Brought the first copy; None for our own
        self.arrived_at: Time = NEVER  # When that copy arrived, before validation
        self.accepted_at: Time = NEVER
        self.cached = False
        self.served: dict[PeerId, int] | None = None  # Answers to GRAFTs, by peer

    def note_holder(self, peer: PeerId, hops: int = 0) -> None:
        """`peer` has it: it announced it with `hops`, or has a copy."""
        holders = self.holders
        if holders is not None and len(holders) < MAX_HOLDERS:
            holders.setdefault(peer, hops)

    @property
    def goes_down(self) -> bool:
        """Whether it comes from the root of its tree; without an author, the tree's word counts."""
        return self.tree is not None and (self.source is None or self.source == self.tree)

    @property
    def pushed_for(self) -> float:
        """Seconds for which pushes of a large message are under way: who hears of it meanwhile asks
        for a copy too many."""
        return self.size // _LARGE * _LARGE_TAKES

    def gossip(self) -> Gossip:
        hops = next_hops(self.hops)
        return Gossip(self.id, hops, self.payload, self.size, self.source, self.tree)

    def summary(self) -> MessageSummary:
        """Its line in an IHAVE: the hops that a GOSSIP from here would carry."""
        return MessageSummary(self.id, next_hops(self.hops))

    def asked_at(self, peer: PeerId | None) -> Time | None:
        """When `peer` got the first GRAFT for it; None if it got none."""
        return next((at for asked, at in self.asked if asked == peer), None)


_NOBODY: list[tuple[PeerId, Time]] = []  # For messages that were never asked for: never changed


class MessageCache:
    """Payloads are bounded by age, count and bytes, ids by age and count, messages in validation by
    age and count; those that are only announced by `missing_messages`."""

    __slots__ = ("_cached", "_forgotten", "_params", "cached_bytes", "open", "seen", "validating")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self.open: dict[MessageId, GossipMessage] = {}  # Announced, or in validation
        self.seen: dict[MessageId, GossipMessage] = {}  # Accepted
        self._cached: deque[GossipMessage] = deque()  # Those that have their payloads, ...
        self._forgotten: deque[GossipMessage] = deque()  # ... and the others; the oldest first
        self.validating: dict[MessageId, Time] = {}  # Messages in validation, and when that began
        self.cached_bytes = 0

    def __contains__(self, id: MessageId) -> bool:
        return id in self.seen

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def cached_messages(self) -> int:
        return len(self._cached)

    def get(self, id: MessageId) -> GossipMessage | None:
        """The message, if its payload is cached."""
        message = self.seen.get(id)
        return message if message is not None and message.cached else None

    def add_copy(self, peer: PeerId, id: MessageId, copy: Copy) -> bool:
        """A copy is to be validated; False if there is no room to remember it."""
        self.expire(copy.arrived_at)
        message = self.open.get(id)
        if message is None or message.copies is None:
            if len(self.validating) >= MAX_VALIDATING:
                return False
            message = message or self.open.setdefault(id, GossipMessage(id))
            message.copies = {}
            self.validating[id] = copy.arrived_at
        copies = message.copies
        if copies is not None and len(copies) < MAX_HOLDERS:
            copies.setdefault(peer, copy)
        return True

    def remove_copy(self, peer: PeerId, id: MessageId) -> bool:
        """The copy of `peer` proved invalid; whether no other is in validation."""
        message = self.open.get(id)
        if message is None or message.copies is None:
            return True
        message.copies.pop(peer, None)
        if not message.copies:
            self._end_validation(message)
        return message.copies is None

    def _end_validation(self, message: GossipMessage) -> None:
        message.copies = None
        del self.validating[message.id]
        if message.informant is None:
            del self.open[message.id]

    def take(self, id: MessageId) -> GossipMessage:
        """The record of a message that proved valid, out of those that are open."""
        self.validating.pop(id, None)
        return self.open.pop(id, None) or GossipMessage(id)

    def store(self, message: GossipMessage, payload: object, size: int, now: Time) -> None:
        message.payload, message.size, message.accepted_at = payload, size, now
        message.cached = True
        self.seen[message.id] = message
        self._cached.append(message)
        self.cached_bytes += size
        self.expire(now)

    def recent(self, since: Time, received_since: Time) -> Iterator[GossipMessage]:
        """Cached messages since `since`, and of others since `received_since`; newest first."""
        for message in reversed(self._cached):
            if message.accepted_at < since:
                return
            if message.sender is None or message.accepted_at >= received_since:
                yield message

    def expire(self, now: Time) -> None:
        while self.validating:
            id, since = next(iter(self.validating.items()))
            if since + VALIDATION_TIMEOUT > now:
                break
            self._end_validation(self.open[id])
        params, cached, ids = self._params, self._cached, self._forgotten
        while cached and (
            cached[0].accepted_at < now - params.cache_ttl
            or len(cached) > params.cache_messages
            or self.cached_bytes > params.cache_bytes
        ):
            self._forget_payload()
        while ids and (
            ids[0].accepted_at < now - params.seen_ttl or len(self.seen) > SEEN_MESSAGES
        ):
            del self.seen[ids.popleft().id]

    def _forget_payload(self) -> None:
        message = self._cached.popleft()
        self.cached_bytes -= message.size
        message.payload = message.served = message.holders = None
        message.asked = _NOBODY
        message.cached = False
        self._forgotten.append(message)

    def clear(self) -> None:
        """Forget all but the ids."""
        while self._cached:
            self._forget_payload()
        self.open.clear()
        self.validating.clear()
