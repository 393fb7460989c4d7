"""Rate limiter: how often one peer may have us act, a token bucket for each kind of message.

Acting on each of these costs more than sending it did: walks, dials, answers, links that come
and go. What belongs to broadcast has its own bounds in `plumtree`.
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

LIMITS: dict[type, Rate] = {
    # Measured: a neighbour relays 27 at most while 300 nodes join within a second, 15 while 1,000
    # join in 10 s.
    Join: Rate(5, 100),
    # Ours: at 1 % churn a second a link carries 0.03/s; the peers on the way take the peer that
    # passed it on for its source.
    ForwardJoin: Rate(0.2, 30),
    # Measured: 3 at once; link checks take one each 7 s or so.
    Neighbor: Rate(1, 20),
    # Measured: 4 at once; a link carries one in 4 s or so.
    Shuffle: Rate(1, 20),
    # Measured: 91 at most when half of 1,000 nodes leave at once.
    Leave: Rate(20, 200),
    # Ours: a node without neighbours asks once in 3 s.
    GetNodes: Rate(0.5, 10),
    GetTopics: Rate(0.5, 10),
}
"""What one peer may send of each kind; the kinds not named here are not limited."""

REQUEST_LIMIT = Rate(0.1, 5)
"""NEIGHBOR requests of one peer. Ours: a refused peer comes back after 30 s, and optimisation asks
once in 10 s."""

MAX_PEERS = 1024
"""Peers that are remembered for each kind. Ours: several times a host's connections."""

_LOOK_EVERY = 1.0
"""Seconds between two looks for full buckets, which nothing but memory depends on. Ours."""

_ROUNDING = 1e-6
"""Tokens by which sums of times may be off."""


class RateLimiter:
    """For each kind, when the buckets of the peers that sent last are full again.

    That one time is the whole bucket (the GCRA of ATM Forum TM 4.0), and a bucket that is full is
    removed within a second of messages: such a peer starts with full buckets again, like a new one.
    """

    __slots__ = ("_full_at", "_next_look")

    def __init__(self) -> None:
        self._full_at: dict[type | NeighborRole, dict[PeerId, Time]] = {}
        self._next_look = 0.0

    def __len__(self) -> int:
        return max(map(len, self._full_at.values()), default=0)

    def allows(self, peer: PeerId, message: Message, now: Time) -> bool:
        """Whether `message` from `peer` may be acted on now; it counts if so."""
        is_request = isinstance(message, Neighbor) and message.role is NeighborRole.REQUEST
        limit = REQUEST_LIMIT if is_request else LIMITS.get(type(message))
        if limit is None:
            return True
        kind: type | NeighborRole = NeighborRole.REQUEST if is_request else type(message)
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY
            self._forget_full(now)
        peers = self._full_at.get(kind)
        if peers is None:
            peers = self._full_at[kind] = {}
        full_at = max(peers.pop(peer, now), now)
        if len(peers) >= MAX_PEERS:
            del peers[next(iter(peers))]
        is_allowed = (full_at - now) * limit.per_second <= limit.burst - 1 + _ROUNDING
        if is_allowed:
            full_at += 1 / limit.per_second
        peers[peer] = full_at
        return is_allowed

    def _forget_full(self, now: Time) -> None:
        """Forget, of each kind, the peers that sent longest ago whose buckets are full."""
        for kind in [*self._full_at]:
            peers = self._full_at[kind]
            while peers:
                longest_silent = next(iter(peers))
                if peers[longest_silent] > now:
                    break
                del peers[longest_silent]
            if not peers:
                del self._full_at[kind]
