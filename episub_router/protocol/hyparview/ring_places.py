"""Places of peers on pseudo-random rings, as hashes of their ids say: which are next to each other.

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
_BITS = 53
"""Bits of a place that a part of the turn has: those of a float, which are compared and subtracted
exactly. That two peers have the same ones is left to chance."""
_LEFT_OUT = 8 * _BYTES - _BITS
_TURN = 1 << _BITS

_AFTER, _BEFORE = 1, -1
"""The sides of a node on a ring, as steps through its peers in their order."""

_CACHED = 65_536
"""Peers whose places are kept, so that they need not be computed again: about 25 MB at most."""


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
        """The `each` nearest of `peers` on either side of `center` on each ring: first those that
        are next to it, the nearest of these first, then those behind them."""
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
                for peer in _in_order(others, after)[::side]:
                    if self._takes_place(peer, groups):
                        found[peer] = None
                        break
        return found

    def _takes_place(self, peer: PeerId, groups: dict[Group, PeerId]) -> bool:
        """Whether no other peer of its group is among those found."""
        group = self._group_of(peer)
        return group is None or groups.setdefault(group, peer) == peer


def _in_order(peers: list[PeerId], after: list[float]) -> list[PeerId]:
    """`peers` from the one after the centre to the one before it."""
    return [peers[index] for index in sorted(range(len(peers)), key=after.__getitem__)]
