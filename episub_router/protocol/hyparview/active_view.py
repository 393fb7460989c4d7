"""The active view: the links of one node, and what is known of each neighbour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from episub_router.protocol.messages import LinkKind, Neighbor, NeighborRole
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, PeerId, Time

RTT_FAILURES = 3
"""Pings failed in a row after which a neighbour's RTT is infinite. Chosen: one may be chance."""

_LISTED = 32
"""Peers remembered of a neighbour's list; active views are smaller."""


class Link:
    """The record of one neighbour."""

    __slots__ = (
        "answered_at", "doubted_at", "failed_pings", "kind", "last_activity", "links", "peers",
        "queries_left", "random_links", "rtt",
    )  # fmt: skip

    def __init__(self, kind: LinkKind, now: Time) -> None:
        self.kind = kind
        self.links = self.random_links = 0
        """Active links that the peer last said it has (E10), and the random ones (E16)."""
        self.peers: tuple[PeerId, ...] = ()
        """The peer's active view as it last sent it (E11)."""
        self.answered_at = now
        """When it last answered a query."""
        self.last_activity = now
        """When it last sent something that only a neighbour sends (E12)."""
        self.doubted_at = now
        """Its `last_activity` when the link check began to doubt it (E15)."""
        self.queries_left = 0
        """Queries that it may leave unanswered before the link fails."""
        self.rtt: Rtt | None = None
        """None before the first ping, and once too many in a row have failed."""
        self.failed_pings = 0

    def update_rtt(self, sample: float | None) -> None:
        """A round trip took `sample` seconds, or failed (None)."""
        if sample is not None:
            self.failed_pings = 0
            self.rtt = updated(self.rtt, sample)
            return
        self.failed_pings += 1
        if self.failed_pings >= RTT_FAILURES:
            self.rtt = None

    @property
    def distance(self) -> float:
        """RTT in seconds; infinite once pings fail, 0 while unmeasured. The least of late counts,
        as a busy machine makes near neighbours look far."""
        if self.failed_pings >= RTT_FAILURES:
            return NEVER
        return 0.0 if self.rtt is None else min(self.rtt.mean, self.rtt.least)

    def update(self, described: Neighbor, now: Time) -> None:
        """The peer described itself. Where the ends disagree, the link is random for both."""
        self.last_activity = now
        self.links = described.links
        self.random_links = described.random_links
        if described.role is not NeighborRole.REQUEST and described.kind is LinkKind.RANDOM:
            self.kind = LinkKind.RANDOM
        if described.role is NeighborRole.LIST:
            self.answered_at = now
            if not described.numbers_only:
                self.peers = described.peers[:_LISTED]


class ActiveView:
    """The links by peer, in the order in which they were made. Callers of `add` keep the bound."""

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
        return sum([link.kind is kind for link in self._links.values()])

    def pick(self, rng: Random, *but: PeerId) -> PeerId | None:
        """A random peer that isn't one of `but`."""
        peers = [peer for peer in self._links if peer not in but]
        return rng.choice(peers) if peers else None

    def sample(self, rng: Random, size: int, *but: PeerId) -> list[PeerId]:
        """At most `size` random peers that aren't among `but`."""
        return pick_some(rng, [peer for peer in self._links if peer not in but], size)


def pick_some(rng: Random, peers: list[PeerId], size: int) -> list[PeerId]:
    """`size` random ones of `peers`, or all in random order where there are fewer."""
    return rng.sample(peers, max(0, min(size, len(peers))))
