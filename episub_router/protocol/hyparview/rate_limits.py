"""Rate limits: how often one peer may have this node act, by kind of message."""

from __future__ import annotations

from episub_router.protocol import messages as msg
from episub_router.protocol.types import PeerId, Time
from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

LIMITS: dict[type, Rate] = {
    msg.Join: Rate(5, 100),  # Measured: 27 while 300 nodes join at once, 15 while 1,000 do in 10 s.
    msg.ForwardJoin: Rate(0.2, 30),  # Chosen: a link carries 0.03/s at 1 % churn a second.
    msg.Neighbor: Rate(1, 20),  # Measured: 3 at once; link checks take one each 7 s.
    msg.Shuffle: Rate(1, 20),  # Measured: 4 at once; a link carries one in 4 s.
    msg.Leave: Rate(20, 200),  # Measured: 91 when half of 1,000 nodes leave at once.
    msg.GetNodes: Rate(0.5, 10),  # Chosen: a node without neighbours asks once in 3 s.
    msg.GetTopics: Rate(0.5, 10),
}
"""Messages a second, and at once, of one peer; other kinds are not limited here."""

REQUEST_LIMIT = Rate(0.1, 5)
"""NEIGHBOR requests of one peer. Chosen: one in need asks again after 10 s (`neighbor`)."""

MAX_PEERS = 1024
"""Peers remembered for each kind. Chosen: several times a host's connections."""


class RateLimiter:
    """A token bucket for each kind of message and peer; those that are full are forgotten."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[Rate, TokenBuckets[tuple[type, PeerId]]] = {}

    def __len__(self) -> int:
        return max(map(len, self._buckets.values()), default=0)

    def allows(self, peer: PeerId, message: msg.Message, now: Time) -> bool:
        """Whether `message` from `peer` may be acted on now; it counts if so."""
        kind = type(message)
        limit = LIMITS.get(kind)
        if isinstance(message, msg.Neighbor) and message.role is msg.NeighborRole.REQUEST:
            limit = REQUEST_LIMIT
        if limit is None:
            return True
        buckets = self._buckets.get(limit)
        if buckets is None:
            buckets = self._buckets[limit] = TokenBuckets(limit, MAX_PEERS)
        buckets.forget_full(now)
        allowed = buckets.take((kind, peer), now)
        if not allowed:
            buckets.spend((kind, peer), now, 0)  # So that it isn't forgotten for others.
        return allowed
