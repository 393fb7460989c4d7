"""How often one peer may have us do something: token buckets for membership's messages.

Each of them costs more than it took to send: walks, dials, answers, links that come and go.
Payloads and what belongs to the trees have their own bounds in `broadcast`.
"""

from __future__ import annotations

from episub_router.protocol.messages import (
    ForwardJoin,
    GetNodes,
    GetTopics,
    Join,
    Leave,
    Message,
    Neighbor,
    NeighborRole,
    Shuffle,
)
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.types import PeerId, Time
from episub_router.util.params import Rate


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: Time) -> None:
        self.tokens = tokens
        self.at = at


class RateLimiter:
    """One bucket for each kind of message of each peer, for the `limited_peers` heard of last.

    A peer that was forgotten starts with full buckets, as one does that was never heard of.
    """

    __slots__ = ("_limits", "_most_peers", "_peers", "_requests")

    def __init__(self, params: MembershipParams) -> None:
        self._limits: dict[type, Rate] = {
            Join: params.join_limit,
            ForwardJoin: params.forward_join_limit,
            Neighbor: params.neighbor_limit,
            Shuffle: params.shuffle_limit,
            Leave: params.leave_limit,
            GetNodes: params.query_limit,
            GetTopics: params.query_limit,
        }
        self._requests = params.request_limit
        self._most_peers = params.limited_peers
        self._peers: dict[PeerId, dict[type | NeighborRole, _Bucket]] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def allows(self, peer: PeerId, message: Message, now: Time) -> bool:
        """Whether `message` from `peer` may be acted on now; it counts if so."""
        is_request = type(message) is Neighbor and message.role is NeighborRole.REQUEST
        limit = self._requests if is_request else self._limits.get(type(message))
        if limit is None:
            return True
        buckets = self._peers.pop(peer, None)
        if buckets is None:
            buckets = {}
            if len(self._peers) >= self._most_peers:
                del self._peers[next(iter(self._peers))]
        self._peers[peer] = buckets
        kind: type | NeighborRole = NeighborRole.REQUEST if is_request else type(message)
        bucket = buckets.get(kind)
        if bucket is None:
            bucket = buckets[kind] = _Bucket(limit.burst, now)
        else:
            grown = bucket.tokens + (now - bucket.at) * limit.per_second
            bucket.tokens = min(limit.burst, grown)
            bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
