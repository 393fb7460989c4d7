"""How much of ROOT one peer may have us act on: each new line is flooded to all neighbours."""

from __future__ import annotations

from episub_router.protocol.messages import Root
from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

ROOT_RATE = Rate(50, 256)
"""Lines of ROOT of one peer, over all topics. Chosen: 64 sources that each send a round every 5 s,
as the core does at most, make 13/s; a new neighbour offers 100 at once for each topic."""

_MAX_PEERS = 1024
"""Peers that are remembered; chosen: many times the neighbours of one node."""


class RootGate:
    """A token bucket for each peer."""

    def __init__(self) -> None:
        self._buckets: TokenBuckets[bytes] = TokenBuckets(ROOT_RATE, _MAX_PEERS)

    def admit(self, peer: bytes, root: Root, now: float) -> Root:
        """What of `root` may be acted on at `now` (s): its first lines, requests before roots."""
        wanted = len(root.requests) + len(root.roots)
        allowed = min(wanted, int(self._buckets.left(peer, now)))
        self._buckets.spend(peer, now, allowed)
        if allowed == wanted:
            return root
        requests = root.requests[:allowed]
        return Root(root.roots[: allowed - len(requests)], requests)
