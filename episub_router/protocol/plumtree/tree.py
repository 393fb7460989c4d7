"""One node's part in each tree: which neighbours push to it, and which it pushes to (E31).

The tree `None` is the shared one of the specification, over links that push both ways. Each source
may have a tree of its own, which ROOT builds.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from typing import NamedTuple

from episub_router.protocol.messages import MAX_IDS
from episub_router.protocol.types import NEVER, PeerId, SourceId, Time
from episub_router.util.bounded import put_last

SETUP = 0.5  # Seconds from ROOT until its tree is used. Chosen: three of the longest round trips
TREE_IDLE = 120.0  # Seconds that a tree stands after its last ROOT. Chosen: half of `seen_ttl`
MAX_TREES = 128  # Trees kept. Chosen: twice `source_trees`; the rest expired or carry nothing yet
FAILED_AFTER = 6  # Messages in a row that a parent didn't push, or a standby not announce, ...
_FAILED_WITHIN = 3.0  # ... in so many seconds. Chosen: at 30 % loss 0.1 % of honest ones fail
_FAILED_FOR = 120.0
"""Seconds for which a neighbour that failed is neither; twice as long each time. Chosen: twice
go-libp2p-pubsub's back-off after a PRUNE; measured, 60 s let censors come back."""
_MOST_FAILED_FOR = 960.0  # Reached with the fourth failure
_KEEP_STANDBY = 0.02  # Seconds that a standby's copy of ROOT may come later than another's


class Offer(NamedTuple):
    """A neighbour's copy of the last ROOT."""

    arrived_at: Time
    hops: int
    cost: float


class Streak:
    __slots__ = ("count", "since")

    def __init__(self) -> None:
        self.count = 0
        self.since: Time = NEVER

    def add(self, now: Time) -> bool:
        """One more; whether that is a failure."""
        if not self.count:
            self.since = now
        self.count += 1
        return self.count >= FAILED_AFTER and now - self.since >= _FAILED_WITHIN


class Service:
    __slots__ = ("excluded_until", "failures", "unannounced", "unpushed")

    def __init__(self) -> None:
        self.unpushed = Streak()  # As a parent
        self.unannounced = Streak()  # As a standby
        self.failures = 0
        self.excluded_until: Time = -NEVER


class Tree:
    """One node's part in one tree. Some 2 KB with seven neighbours."""

    __slots__ = (
        "announce_to", "carried", "children", "cost", "hops", "leaving", "offers", "own", "parents",
        "proven", "requested", "root_at", "round", "services", "source", "standbys", "usable_at",
    )  # fmt: skip

    def __init__(self, source: SourceId | None) -> None:
        self.source = source
        self.parents: list[PeerId] = []
        """Neighbours that push to us; in the shared tree those that were first with a message."""
        self.children: dict[PeerId, None] = {}  # Neighbours that we push to
        self.standbys: list[PeerId] = []  # Neighbours asked to announce each message at once
        self.announce_to: dict[PeerId, None] = {}  # Neighbours that asked us to do so
        self.leaving: dict[PeerId, Time] = {}  # Former parents, and when to PRUNE them
        self.offers: dict[PeerId, Offer] = {}  # Copies of the last ROOT, in the order of arrival
        self.services: dict[PeerId, Service] = {}  # Of neighbours that missed something
        self.round = -1
        self.requested = -1  # The last round after which a new one was asked for
        self.hops = 0  # Links from the source
        self.cost = 0.0  # Seconds from the source, as the nodes on the way estimate them
        self.root_at: Time = -NEVER  # When the last ROOT came, or went out if the tree is our own
        self.usable_at: Time = NEVER
        self.own = False  # Whether we are the source
        self.proven = False  # Whether a message of the source has arrived
        self.carried = 0  # Messages along this tree since the last ROOT

    @property
    def parent(self) -> PeerId | None:
        return self.parents[0] if self.parents else None

    def is_fresh(self, now: Time) -> bool:
        """Whether the last ROOT still counts."""
        return now <= self.root_at + TREE_IDLE

    def stands(self, now: Time) -> bool:
        """Whether messages may be pushed along it."""
        return self.usable_at <= now <= self.root_at + TREE_IDLE

    def note_root(self, now: Time) -> None:
        if not self.is_fresh(now):
            self.usable_at, self.proven = now + SETUP, False
        self.root_at, self.carried = now, 0

    def is_feasible(self, peer: PeerId | None) -> bool:
        """Whether `peer` is nearer to the source than we are, by the last ROOT: such parents form
        no cycle (the feasibility condition of Babel, RFC 8966, section 2.4)."""
        offer = self.offers.get(peer)
        return offer is not None and offer.cost < self.cost and peer not in self.children

    def next_parent(self, links: Collection[PeerId]) -> PeerId | None:
        """Replaces a lost parent: one that pushes already or brought ROOT first, better a feasible
        one; in the shared tree any that is lazy."""
        order = links if self.source is None else [*self.parents, *self.offers]
        left = [peer for peer in order if peer in links and peer not in self.children]
        return next((peer for peer in left if self.is_feasible(peer)), left[0] if left else None)

    def choose(
        self, links: Container[PeerId], parents: int, standbys: int
    ) -> tuple[list[PeerId], list[PeerId]]:
        """The parents beside the first one, and the standbys: those that brought ROOT next,
        feasible ones first as parents, and no children."""
        first = self.parent
        fit = [p for p in self.offers if p in links and p != first and p not in self.children]
        ranked = sorted(fit, key=lambda peer: not self.is_feasible(peer))
        more = self._best(ranked, parents - 1, self.parents[1:])
        return more, self._best([p for p in fit if p not in more], standbys, self.standbys)

    def _best(self, fit: list[PeerId], count: int, former: list[PeerId]) -> list[PeerId]:
        """The first `count`; a former one stays if it was hardly later."""
        best = fit[:count]
        for peer in former:
            if peer in fit and peer not in best and best:
                delay = self.offers[peer].arrived_at - self.offers[best[-1]].arrived_at
                if delay <= _KEEP_STANDBY:
                    best[-1] = peer
        return best

    def take_parent(self, peer: PeerId) -> None:
        """`peer` replaces the first parent."""
        self.parents = [peer, *(p for p in self.parents[1:] if p != peer)]
        self.leaving.pop(peer, None)
        self.children.pop(peer, None)

    def link(self, peer: PeerId) -> bool:
        """In the shared tree `peer` and we push to each other; False if that was so."""
        new = peer not in self.children
        self.children[peer] = None
        return new

    def note_parent(self, peer: PeerId) -> None:
        """In the shared tree `peer` was first with a message."""
        if peer not in self.parents:
            self.parents.append(peer)

    def unlink(self, peer: PeerId) -> None:
        self.children.pop(peer, None)
        if peer in self.parents:
            self.parents.remove(peer)

    def forget(self, peer: PeerId) -> None:
        for peers in (self.parents, self.standbys):
            if peer in peers:
                peers.remove(peer)
        for table in (self.children, self.offers, self.announce_to, self.leaving, self.services):
            table.pop(peer, None)

    def service(self, peer: PeerId | None) -> Service:
        """How `peer` has served this tree, as a read-only view."""
        return self.services.get(peer) or Service()

    def note_missed(self, peer: PeerId, now: Time) -> bool:
        """The parent or standby `peer` missed a message; whether it has failed by that."""
        service = self.services.setdefault(peer, Service())
        streak = service.unpushed if peer in self.parents else service.unannounced
        if not streak.add(now):
            return False
        self.exclude(peer, now)
        return True

    def exclude(self, peer: PeerId, now: Time) -> None:
        """`peer` has failed, and is no candidate for a while."""
        service = self.services.setdefault(peer, Service())
        service.excluded_until = now + min(_MOST_FAILED_FOR, _FAILED_FOR * 2**service.failures)
        service.failures += 1
        service.unpushed.count = service.unannounced.count = 0
        self.offers.pop(peer, None)

    def note_pushed(self, peer: PeerId) -> None:
        service = self.services.get(peer)
        if service is not None:
            service.unpushed.count = service.unannounced.count = 0

    def note_announced(self, peer: PeerId) -> None:
        """`peer` announced a message: after its first failure that makes it a candidate again."""
        service = self.services.get(peer)
        if service is not None:
            service.unannounced.count = 0
            if service.failures == 1:
                service.excluded_until = -NEVER


class Trees:
    """The trees that a node takes part in, those of sources least recently used first."""

    __slots__ = ("by_source", "shared")

    def __init__(self) -> None:
        self.shared = Tree(None)
        self.by_source: dict[SourceId, Tree] = {}

    def __len__(self) -> int:
        return len(self.by_source)

    def __iter__(self) -> Iterator[Tree]:
        yield self.shared
        yield from self.by_source.values()

    def get(self, source: SourceId | None) -> Tree | None:
        return self.shared if source is None else self.by_source.get(source)

    def named(self, sources: Sequence[SourceId]) -> Iterator[Tree]:
        """Those of `sources` that are known; of the first `MAX_IDS`."""
        for source in sources[:MAX_IDS]:
            tree = self.by_source.get(source)
            if tree is not None:
                yield tree

    def use(self, source: SourceId) -> Tree:
        """The tree of `source`, new if there is none; it becomes the last to be forgotten."""
        tree = self.by_source.get(source)
        if tree is None:
            tree = Tree(source)
            if len(self.by_source) >= MAX_TREES:
                # One that never carried a message is worth least: anyone can send ROOTs.
                others = [each for each in self.by_source.values() if not each.own]
                if others:
                    del self.by_source[min(others, key=lambda each: each.proven).source]
        put_last(self.by_source, source, tree, MAX_TREES)
        return tree

    def count_proven(self, now: Time) -> int:
        """Trees that carry messages; others don't count, or invented sources took all the room."""
        return sum((t.own or t.proven) and t.is_fresh(now) for t in self.by_source.values())

    def nearest(self, links: Collection[PeerId], now: Time) -> Tree | None:
        """The tree of the nearest source, of those that stand."""
        standing = (tree for tree in self.by_source.values() if tree.proven and tree.stands(now))
        linked = (tree for tree in standing if tree.parent in links)
        return min(linked, key=lambda tree: tree.cost, default=None)

    def clear(self) -> None:
        self.shared = Tree(None)
        self.by_source.clear()
