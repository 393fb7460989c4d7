"""Places of peers on pseudo-random rings: which are next to each other, as hashes of their ids say.

As in Fireflies (Johansen, Allavena and van Renesse, EuroSys 2006): on each ring a node has links
to the peers just before and just after it. All nodes agree about which these are, asking sooner
or more often changes nothing, and every peer is on the way to a nearer one, so they are found in
a few steps. A few such rings make a random expander (Law and Siu, INFOCOM 2003).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from episub_router.protocol.types import Group, GroupOf, PeerId, ungrouped

_BYTES = 8
_TURN = 1 << 8 * _BYTES

_CACHED = 65_536
"""Places kept, so that they need not be computed again: about 10 MB at most. Ours."""


@lru_cache(maxsize=_CACHED)
def place(name: str, ring: int, peer: PeerId) -> int:
    """Where `peer` is on one ring of the topic `name` (docs/wire.md)."""
    topic = name.encode()
    key = peer if isinstance(peer, bytes) else repr(peer).encode()
    hashed = sha256(len(topic).to_bytes(4, "big") + topic + ring.to_bytes(2, "big") + key)
    return int.from_bytes(hashed.digest()[:_BYTES], "big")


class Places:
    """The peers next to a node on `rings` rings, among those that are given."""

    __slots__ = ("_group_of", "_name", "_rings")

    def __init__(self, name: str, rings: int, group_of: GroupOf = ungrouped) -> None:
        self._name = name
        self._rings = rings
        self._group_of = group_of

    def _around(self, center: PeerId, peers: list[PeerId], ring: int) -> list[PeerId]:
        """`peers` in their order on the ring, from the one after `center` to the one before it."""
        name = self._name
        own = place(name, ring, center)
        return sorted(peers, key=lambda peer: (place(name, ring, peer) - own) % _TURN)

    def nearest(self, center: PeerId, peers: Iterable[PeerId], each: int) -> list[PeerId]:
        """The `each` nearest of `peers` on either side of `center` on each ring, nearest first."""
        others = [peer for peer in peers if peer != center]
        orders = [self._around(center, others, ring) for ring in range(self._rings)]
        found: dict[PeerId, None] = {}
        for index in range(min(each, len(others))):
            for order in orders:
                found[order[index]] = None
                found[order[-1 - index]] = None
        return list(found)

    def holders(self, center: PeerId, peers: Iterable[PeerId]) -> dict[PeerId, None]:
        """Those of `peers` that are to be neighbours of `center`: the nearest on either side on
        each ring, but no two of one group, where others are next."""
        others = [peer for peer in peers if peer != center]
        groups: dict[Group, PeerId] = {}
        found: dict[PeerId, None] = {}
        for ring in range(self._rings):
            order = self._around(center, others, ring)
            for side in (order, order[::-1]):
                for peer in side:
                    group = self._group_of(peer)
                    if group is None or groups.setdefault(group, peer) == peer:
                        found[peer] = None
                        break
        return found
