"""The two lists of peers that membership keeps, and nothing about how they are used.

Both are insertion-ordered, so that a run depends on its seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from episub_router.protocol.messages import LinkKind, Neighbor, NeighborRole
from episub_router.protocol.rtt import Rtt
from episub_router.protocol.types import PeerId, Time

_LISTED = 32
"""Peers remembered of a neighbour's list; active views are smaller."""


class Link:
    """One entry of the active view."""

    __slots__ = ("heard", "kind", "links", "listed", "peers", "random_links", "rtt")

    def __init__(self, kind: LinkKind, now: Time) -> None:
        self.kind = kind
        self.links = 0
        """Active links that the peer last said it has (E10)."""
        self.random_links = 0
        """How many of them it said are random (E16)."""
        self.heard = now
        """When the peer last sent something that only a neighbour sends (E12)."""
        self.rtt: Rtt | None = None
        """None until it was measured."""
        self.peers: tuple[PeerId, ...] = ()
        """The peer's active view as it last told us (E11)."""
        self.listed = now
        """When it did."""

    def measured(self, sample: float) -> None:
        """A round trip took `sample` seconds."""
        if self.rtt is None:
            self.rtt = Rtt(sample)
        else:
            self.rtt.update(sample)

    def update(self, told: Neighbor, now: Time) -> None:
        """The peer told us about itself. Where the ends disagree about the kind, after requests
        that crossed, it is random for both."""
        self.heard = now
        self.links = told.links
        self.random_links = told.random_links
        if told.role is not NeighborRole.REQUEST and told.kind is LinkKind.RANDOM:
            self.kind = LinkKind.RANDOM
        if told.role is NeighborRole.LIST:
            self.peers = told.peers[:_LISTED]
            self.listed = now


class ActiveView:
    """Peers with a broadcast link, by id. Who adds decides about the bound (E06, E13)."""

    __slots__ = ("_links",)

    def __init__(self) -> None:
        self._links: dict[PeerId, Link] = {}

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._links

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._links)

    def get(self, peer: PeerId) -> Link | None:
        return self._links.get(peer)

    def items(self) -> Iterable[tuple[PeerId, Link]]:
        return self._links.items()

    def add(self, peer: PeerId, link: Link) -> None:
        self._links[peer] = link

    def remove(self, peer: PeerId) -> Link | None:
        return self._links.pop(peer, None)

    def count(self, kind: LinkKind) -> int:
        return sum(link.kind is kind for link in self._links.values())

    def pick(self, rng: Random, *but: PeerId) -> PeerId | None:
        """A random peer that isn't one of `but`; None if there is none."""
        peers = [peer for peer in self._links if peer not in but]
        return rng.choice(peers) if peers else None

    def sample(self, rng: Random, size: int, *but: PeerId) -> list[PeerId]:
        """At most `size` random peers that aren't among `but`."""
        return pick_some(rng, [peer for peer in self._links if peer not in but], size)


class PassiveView:
    """Peers believed to be in the overlay, at most `size` of them, with their last RTT."""

    __slots__ = ("_rtts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._rtts: dict[PeerId, Rtt | None] = {}

    def __len__(self) -> int:
        return len(self._rtts)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._rtts

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._rtts)

    def rtt(self, peer: PeerId) -> Rtt | None:
        return self._rtts.get(peer)

    def measured(self) -> Iterator[tuple[PeerId, Rtt]]:
        """The peers whose RTT is known."""
        return ((peer, rtt) for peer, rtt in self._rtts.items() if rtt is not None)

    def update_rtt(self, peer: PeerId, sample: float) -> None:
        """A round trip to `peer` took `sample` seconds."""
        if peer not in self._rtts:
            return
        known = self._rtts[peer]
        if known is None:
            self._rtts[peer] = Rtt(sample)
        else:
            known.update(sample)

    def forget_rtt(self, peer: PeerId) -> None:
        if peer in self._rtts:
            self._rtts[peer] = None

    def remove(self, peer: PeerId) -> bool:
        """Forget `peer`; True if it was there."""
        if peer not in self._rtts:
            return False
        del self._rtts[peer]
        return True

    def add(self, peer: PeerId, rng: Random, rtt: Rtt | None = None) -> None:
        """Remember `peer`; a full view forgets one random other peer for it."""
        if peer in self._rtts:
            return
        if len(self._rtts) >= self.size:
            del self._rtts[rng.choice(list(self._rtts))]
        self._rtts[peer] = rtt

    def exchange(self, incoming: Iterable[PeerId], given: Iterable[PeerId], rng: Random) -> None:
        """Take `incoming` in; a full view forgets the `given` first, then random ones (E19)."""
        new = [peer for peer in dict.fromkeys(incoming) if peer not in self._rtts][: self.size]
        room = len(self._rtts) + len(new) - self.size
        kept = dict.fromkeys(new)
        for peer in given:
            if room > 0 and peer not in kept and self.remove(peer):
                room -= 1
        for peer in pick_some(rng, list(self._rtts), room):
            self.remove(peer)
        self._rtts.update(dict.fromkeys(new))

    def resize(self, size: int, rng: Random) -> None:
        """A new bound; what is beyond it is forgotten at random."""
        self.size = size
        for peer in pick_some(rng, list(self._rtts), len(self._rtts) - size):
            del self._rtts[peer]

    def sample(self, rng: Random, size: int, *but: PeerId) -> list[PeerId]:
        """At most `size` random peers that aren't among `but`."""
        return pick_some(rng, [peer for peer in self._rtts if peer not in but], size)

    def clear(self) -> None:
        self._rtts.clear()


def pick_some(rng: Random, peers: list[PeerId], size: int) -> list[PeerId]:
    """`size` random ones of `peers`, or all of them in random order where there are fewer."""
    return rng.sample(peers, max(0, min(size, len(peers))))
