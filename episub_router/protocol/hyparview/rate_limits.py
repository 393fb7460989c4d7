"""Rate limits: how often one peer may have this node act, by kind of message.

Acting on each of these costs more than sending it did: walks, dials, answers, links that come
and go.
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
from episub_router.protocol.types import PeerId, Time
from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

LIMITS: dict[type, Rate] = {
    # Measured: a neighbour relays 27 at most while 300 nodes join within a second, 15 while 1,000
    # join in 10 s.
    Join: Rate(5, 100),
    # Chosen: at 1 % churn a second a link carries 0.03/s, and the peers on the way take the peer
    # that passed it on for its source.
    ForwardJoin: Rate(0.2, 30),
    # Measured: 3 at once; link checks take one each 7 s or so.
    Neighbor: Rate(1, 20),
    # Measured: 4 at once; a link carries one in 4 s or so.
    Shuffle: Rate(1, 20),
    # Measured: 91 at most when half of 1,000 nodes leave at once.
    Leave: Rate(20, 200),
    # Chosen: a node without neighbours asks once in 3 s.
    GetNodes: Rate(0.5, 10),
    GetTopics: Rate(0.5, 10),
}
"""What one peer may send of each kind; other kinds are not limited here."""

REQUEST_LIMIT = Rate(0.1, 5)
"""NEIGHBOR requests of one peer. Chosen: one that was refused asks again after a minute, and one
in need after 10 s (`neighbor`)."""

MAX_PEERS = 1024
"""Peers remembered for each kind. Chosen: several times a host's connections."""


class RateLimiter:
    """A token bucket for each kind of message and peer; those that are full are forgotten."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[Rate, TokenBuckets[tuple[type, PeerId]]] = {}

    def __len__(self) -> int:
        return max(map(len, self._buckets.values()), default=0)

    def allows(self, peer: PeerId, message: Message, now: Time) -> bool:
        """Whether `message` from `peer` may be acted on now; it counts if so."""
        kind = type(message)
        limit = LIMITS.get(kind)
        if isinstance(message, Neighbor) and message.role is NeighborRole.REQUEST:
            limit = REQUEST_LIMIT
        if limit is None:
            return True
        buckets = self._buckets.get(limit)
        if buckets is None:
            buckets = self._buckets[limit] = TokenBuckets(limit, MAX_PEERS)
        buckets.forget_full(now)
        allowed = buckets.take((kind, peer), now)
        if not allowed:
            # One that goes on sending isn't forgotten for others.
            buckets.spend((kind, peer), now, 0)
        return allowed
