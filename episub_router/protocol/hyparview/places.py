"""Places of peers on pseudo-random rings, by hashes of their ids: which are next to each other.

As in Fireflies (Johansen, Allavena and van Renesse, EuroSys 2006), a node has links to the peers
just before and just after it on each ring. All nodes agree about which these are. A few such rings
make a random expander (Law and Siu, INFOCOM 2003).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from episub_router.protocol.types import Group, GroupOf, PeerId, ungrouped

_BYTES = 8
_BITS = 53
"""Bits of a place that are used: those of a float, which are subtracted exactly."""
_LEFT_OUT = 8 * _BYTES - _BITS
_TURN = 1 << _BITS

_AFTER, _BEFORE = 1, -1
"""The sides of a node on a ring, as steps through its peers in order."""

_CACHED = 65_536
"""Peers whose places are cached: about 25 MB at most."""


def place(name: str, ring: int, peer: PeerId) -> int:
    """Where `peer` is on one ring of the topic `name` (docs/wire.md)."""
    topic = name.encode()
    key = peer if isinstance(peer, bytes) else repr(peer).encode()
    hashed = sha256(len(topic).to_bytes(4, "big") + topic + ring.to_bytes(2, "big") + key)
    return int.from_bytes(hashed.digest()[:_BYTES], "big")


@lru_cache(maxsize=_CACHED)
def _parts(name: str, rings: int, peer: PeerId) -> tuple[float, ...]:
    """The places of `peer` on each ring, as parts of the turn."""
    return tuple([(place(name, ring, peer) >> _LEFT_OUT) / _TURN for ring in range(rings)])


class Places:
    """The peers next to a node on `rings` rings, among those that are given."""

    __slots__ = ("_group_of", "_name", "_rings")

    def __init__(self, name: str, rings: int, group_of: GroupOf = ungrouped) -> None:
        self._name = name
        self._rings = rings
        self._group_of = group_of

    def _after(self, center: PeerId, peers: list[PeerId]) -> list[list[float]]:
        """For each ring, how far after `center` each of `peers` is, as parts of the turn."""
        name, rings = self._name, self._rings
        own = _parts(name, rings, center)
        there = [_parts(name, rings, peer) for peer in peers]
        return [[(at[ring] - own[ring]) % 1.0 for at in there] for ring in range(rings)]

    def nearest(self, center: PeerId, peers: Iterable[PeerId], each: int) -> list[PeerId]:
        """The `each` nearest of `peers` on either side of `center` on each ring: those next to it
        by distance, then those behind them."""
        others = [peer for peer in peers if peer != center]
        ranks: dict[PeerId, float] = {}
        for after in self._after(center, others):
            order = sorted(range(len(others)), key=after.__getitem__)
            for behind in range(min(each, len(others))):
                for index in (order[behind], order[-1 - behind]):
                    peer = others[index]
                    rank = behind + min(after[index], 1.0 - after[index])
                    ranks[peer] = min(rank, ranks.get(peer, rank))
        return sorted(ranks, key=ranks.__getitem__)

    def next_to(self, center: PeerId, peers: Iterable[PeerId]) -> dict[PeerId, None]:
        """Those of `peers` that are to be neighbours of `center`: the nearest on either side on
        each ring, but no two of one group, where others are next."""
        others = [peer for peer in peers if peer != center]
        groups: dict[Group, PeerId] = {}
        found: dict[PeerId, None] = {}
        for after in self._after(center, others) if others else ():
            for side in (_AFTER, _BEFORE):
                peer = others[after.index(min(after) if side == _AFTER else max(after))]
                if self._takes_place(peer, groups):
                    found[peer] = None
                    continue
                order = sorted(range(len(others)), key=after.__getitem__)
                for peer in [others[index] for index in order[::side]]:
                    if self._takes_place(peer, groups):
                        found[peer] = None
                        break
        return found

    def _takes_place(self, peer: PeerId, groups: dict[Group, PeerId]) -> bool:
        """Whether no other peer of its group is among those found."""
        group = self._group_of(peer)
        return group is None or groups.setdefault(group, peer) == peer
