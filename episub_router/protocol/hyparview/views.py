"""The two views of one node: its links, and a larger number of spare peers (E01, E13, E19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from random import Random
from typing import Generic, TypeVar

from episub_router.protocol.messages import LinkKind, Neighbor, NeighborRole
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, Group, GroupOf, PeerId, Time, ungrouped

Entry = TypeVar("Entry")

RTT_FAILURES = 3
"""Pings failed in a row after which a neighbour's RTT is infinite. Chosen: one may be chance."""


class Link:
    """The record of one neighbour."""

    __slots__ = (
        "answered_at", "doubted_at", "failed_pings", "group", "kind", "last_activity", "links",
        "peers", "queries_left", "random_links", "rtt",
    )  # fmt: skip

    def __init__(self, kind: LinkKind, now: Time) -> None:
        self.kind = kind
        self.group: Group | None = None
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
                self.peers = described.peers


class _View(Generic[Entry]):
    """Peers in the order in which they were added, each with what is known of it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[PeerId, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._entries

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._entries)

    def sample(self, rng: Random, size: int, *but: PeerId) -> list[PeerId]:
        """At most `size` random peers that aren't among `but`."""
        return pick_some(rng, [peer for peer in self._entries if peer not in but], size)


class ActiveView(_View[Link]):
    """The links of one node. Callers of `add` keep the bound."""

    __slots__ = ()

    def get(self, peer: PeerId) -> Link | None:
        return self._entries.get(peer)

    def items(self) -> Iterable[tuple[PeerId, Link]]:
        return self._entries.items()

    def add(self, peer: PeerId, link: Link) -> None:
        self._entries[peer] = link

    def remove(self, peer: PeerId) -> Link | None:
        return self._entries.pop(peer, None)

    def count(self, kind: LinkKind) -> int:
        return sum([link.kind is kind for link in self._entries.values()])

    def pick(self, rng: Random, *but: PeerId) -> PeerId | None:
        """A random peer that isn't one of `but`."""
        return next(iter(self.sample(rng, 1, *but)), None)


class PassiveView(_View[tuple[Group, ...]]):
    """At most `size` peers, with their last RTT.

    Ids are cheap to make up. So an entry is labelled with its own group and with that of the peer
    that named it, and in a full view what has a label that fills its share replaces its like.
    """

    __slots__ = ("_group_of", "_limit", "_rtts", "size")

    def __init__(self, size: int, share: float = 1.0, group_of: GroupOf = ungrouped) -> None:
        """`share` is that of one label."""
        super().__init__()
        self.size = size
        self._limit = max(1, round(share * size))
        self._group_of = group_of
        self._rtts: dict[PeerId, Rtt] = {}

    def rtt(self, peer: PeerId) -> Rtt | None:
        return self._rtts.get(peer)

    def update_rtt(self, peer: PeerId, sample: float | None) -> None:
        """A round trip took `sample` seconds; one that failed (None) makes the RTT unknown."""
        if sample is None:
            self._rtts.pop(peer, None)
        elif peer in self._entries:
            self._rtts[peer] = updated(self._rtts.get(peer), sample)

    def remove(self, peer: PeerId) -> bool:
        """Forget `peer`; True if it was there."""
        self._rtts.pop(peer, None)
        return self._entries.pop(peer, None) is not None

    def add(
        self, peer: PeerId, rng: Random, rtt: Rtt | None = None, source: PeerId | None = None
    ) -> bool:
        """Remember `peer`, which `source` named (None: we know it ourselves), in place of another
        where full; False if the shares leave none to remove."""
        added = self.exchange((peer,), (), rng, source)
        if rtt is not None and added:
            self._rtts[peer] = rtt
        return added

    def exchange(
        self, incoming: Iterable[PeerId], given: Iterable[PeerId], rng: Random,
        source: PeerId | None = None,
    ) -> bool:  # fmt: skip
        """Take in what `source` sent, in place of the `given` first where full (E19). False if the
        shares kept some out."""
        new = [peer for peer in dict.fromkeys(incoming) if peer not in self._entries][: self.size]
        spares = [peer for peer in dict.fromkeys(given) if peer in self._entries]
        named: tuple[Group, ...] = ()
        if source is not None:
            group = self._group_of(source)
            named = (source if group is None else group,)
        all_taken = True
        for peer in new:
            group = self._group_of(peer)
            labels = named if group is None or group in named else (group, *named)
            if len(self._entries) >= self.size:
                victim = self._victim(rng, labels, spares, new)
                if victim is None:
                    all_taken = False
                    continue
                self.remove(victim)
            self._entries[peer] = labels
        return all_taken

    def _victim(
        self, rng: Random, labels: tuple[Group, ...], spares: list[PeerId], new: Collection[PeerId]
    ) -> PeerId | None:
        """The entry to remove, none of the `new`: one with the same of `labels` that fill their
        shares, else the next of `spares`, else one with a label beyond its share, else any."""
        counts = Counter([label for entry in self._entries.values() for label in entry])
        full = [label for label in labels if counts[label] >= self._limit]
        beyond = [label for label, count in counts.items() if count > self._limit]
        old = [(peer, entry) for peer, entry in self._entries.items() if peer not in new]
        if full:
            choice = [peer for peer, entry in old if all(label in entry for label in full)]
        elif spares:
            return spares.pop(0)
        else:
            choice = [peer for peer, entry in old if any(label in beyond for label in entry)]
            choice = choice or [peer for peer, _ in old]
        return rng.choice(choice) if choice else None

    def clear(self) -> None:
        self._entries.clear()
        self._rtts.clear()


def pick_some(rng: Random, peers: list[PeerId], size: int) -> list[PeerId]:
    """`size` random ones of `peers`, or all in random order where there are fewer."""
    return rng.sample(peers, max(0, min(size, len(peers))))
