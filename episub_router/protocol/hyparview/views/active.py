"""The active view: the links of one node, insertion-ordered, so that a run depends on its seed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice
from random import Random

from episub_router.protocol.messages import LinkKind, Neighbor, NeighborRole
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, Group, PeerId, Time

MAX_ON_WISH = 2
"""Links beyond A that others' wishes bring: their need can't be checked. Ours: joins need some room
in an overlay whose views are full."""

NEED_BELIEVED = 60.0
"""Seconds for which a new neighbour that says it lacks links is believed. Ours: an honest one has
found others by then; one that lies would be given up last for ever."""

_LISTED = 32
"""Peers remembered of a neighbour's list; active views are smaller."""


class Link:
    """One entry of the active view."""

    __slots__ = (
        "answered_at",
        "failed_pings",
        "kind",
        "last_activity",
        "links",
        "listed_at",
        "on_wish",
        "peers",
        "queried_at",
        "random_links",
        "rtt",
        "since",
        "wish_of",
    )

    def __init__(self, kind: LinkKind, now: Time) -> None:
        self.kind = kind
        self.links = 0
        """Active links that the peer last said it has (E10)."""
        self.random_links = 0
        """How many of them it said are random (E16)."""
        self.last_activity = now
        """When the peer last sent something that only a neighbour sends (E12)."""
        self.queried_at = now
        """When the link check last asked the peer for a sign of life (E15)."""
        self.rtt: Rtt | None = None
        """Smoothed RTT; None before the first ping, and once too many in a row have failed."""
        self.failed_pings = 0
        """Pings failed in a row."""
        self.peers: tuple[PeerId, ...] = ()
        """The peer's active view as it last sent it (E11)."""
        self.listed_at: Time = -NEVER
        """When it did."""
        self.answered_at = now
        """When it last answered a query, with its list or with numbers alone."""
        self.since = now
        """When it became a link."""
        self.on_wish = False
        """Whether it was added beyond A because the peer asked for it (E06, E10)."""
        self.wish_of: Group | None = None
        """The peer's group, if so."""

    def update_rtt(self, sample: float) -> None:
        """A round trip took `sample` seconds."""
        self.failed_pings = 0
        self.rtt = updated(self.rtt, sample)

    def update(self, described: Neighbor, now: Time) -> None:
        """The peer described itself. Where the ends disagree about the kind, after requests that
        crossed, it is random for both."""
        self.last_activity = now
        self.links = described.links
        self.random_links = described.random_links
        if described.role is not NeighborRole.REQUEST and described.kind is LinkKind.RANDOM:
            self.kind = LinkKind.RANDOM
        if described.role is NeighborRole.LIST:
            self.answered_at = now
            if not described.numbers_only:
                self.peers, self.listed_at = described.peers[:_LISTED], now


class ActiveView:
    """Peers with a broadcast link, by id. The caller of `add` keeps the bound (E06, E13)."""

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

    def note_wish(self, peer: PeerId, group: Group | None) -> None:
        """`peer`, of `group`, became a neighbour beyond A because it asked for that."""
        link = self._links[peer]
        link.on_wish, link.wish_of = True, group

    def has_wish_of(self, group: Group) -> bool:
        """Whether a peer of `group` became a neighbour in this way."""
        return any(link.on_wish and link.wish_of == group for link in self._links.values())

    def proved(self, count: int, but: Container[PeerId] = ()) -> list[PeerId]:
        """The `count` random links that have stood longest, without those to `but`. They end by
        failure alone: no claim, request or nearness of another peer ends them here."""
        links = self._links.items()
        random = (p for p, link in links if link.kind is LinkKind.RANDOM and p not in but)
        return list(islice(random, count))

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


def pick_some(rng: Random, peers: list[PeerId], size: int) -> list[PeerId]:
    """`size` random ones of `peers`, or all of them in random order where there are fewer."""
    return rng.sample(peers, max(0, min(size, len(peers))))
