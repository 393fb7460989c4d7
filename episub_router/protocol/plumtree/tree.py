"""One node's part in the tree of one source: who pushes to it, and to whom it pushes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from episub_router.protocol.messages import MAX_IDS
from episub_router.protocol.types import NEVER, PeerId, SourceId, Time
from episub_router.util.bounded import put_last

SETUP = 0.5  # Seconds from ROOT until its tree is used. Chosen: three of the longest round trips
TREE_IDLE = 120.0  # Seconds that a tree stands after its last ROOT. Chosen: half of `seen_ttl`
MAX_TREES = MAX_IDS  # Trees kept, as many as one message names; some expired or carry nothing yet
STANDBYS = 2
"""Neighbours that announce at once. Measured: 10 % of 1,000 nodes crash: p99 of the next second is
0.92x of gossipsub's with two, 1.3x with one, for 0.7 frames a delivery."""
ADOPT_AFTER = 2  # Misses for which another is the parent, and who has them brings no later round
FAILED_AFTER = 6  # Messages more that a neighbour missed than it served, ...
_FAILED_WITHIN = 3.0  # ... in so many seconds. Chosen: at 30 % loss 0.1 % of honest ones fail
_FAILED_FOR = 120.0
"""Seconds for which a neighbour that failed is neither; twice as long each time. Chosen: twice
go-libp2p-pubsub's back-off after a PRUNE; measured, 60 s let censors come back."""
_MOST_FAILED_FOR = 960.0  # Reached with the fourth failure
_KEEP = 0.02  # Seconds by which a standby is preferred to a neighbour that is none. Chosen


class Offer(NamedTuple):
    """A neighbour's copy of the last ROOT."""

    arrived_at: Time
    cost: float


class Role(IntEnum):
    """What a neighbour is asked to do with each message of a source."""

    PUSH = 0
    ANNOUNCE = 1  # At once: a standby


class Service:
    """How a neighbour has done what it was asked to."""

    __slots__ = ("excluded_until", "failures", "missed", "missed_since")

    def __init__(self) -> None:
        self.missed = 0  # One more for each message that it missed, one less for each other
        self.missed_since: Time = NEVER
        self.failures = 0
        self.excluded_until: Time = -NEVER


class Tree:
    """Some 2 KB with seven neighbours."""

    __slots__ = (
        "announce_to", "asked", "carried", "children", "cost", "offers", "own", "parents",
        "proof", "proven", "requested", "root_at", "round", "services", "source", "usable_at",
    )  # fmt: skip

    def __init__(self, source: SourceId) -> None:
        self.source = source
        self.parents: list[PeerId] = []  # Neighbours that push to us, the first one the best
        self.asked: dict[PeerId, Role] = {}  # What neighbours were told, former parents included
        self.children: dict[PeerId, None] = {}  # Neighbours that asked us to push
        self.announce_to: dict[PeerId, None] = {}  # Neighbours that asked us to announce
        self.offers: dict[PeerId, Offer] = {}  # Copies of the last ROOT, in the order of arrival
        self.services: dict[PeerId, Service] = {}  # Of neighbours that missed something
        self.round = -1
        self.proof = b""  # Of this round
        self.requested = -1  # The last round after which a new one was asked for
        self.cost = 0.0  # Seconds from the source, as the nodes on the way estimate them
        self.root_at: Time = -NEVER  # When the last ROOT came, or went out if the tree is our own
        self.usable_at: Time = NEVER
        self.own = False  # Whether we are the source
        self.proven = False  # Whether a message of the source has arrived
        self.carried = 0  # Messages along this tree since the last ROOT

    @property
    def parent(self) -> PeerId | None:
        return self.parents[0] if self.parents else None

    @property
    def standbys(self) -> list[PeerId]:
        return [peer for peer, role in self.asked.items() if role is Role.ANNOUNCE]

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

    def next_parent(self, links: Container[PeerId]) -> PeerId | None:
        """Replaces a lost parent: one that pushes already or brought ROOT first, better a feasible
        one."""
        order = [*self.parents, *self.offers]
        left = [peer for peer in order if peer in links and peer not in self.children]
        return next((peer for peer in left if self.is_feasible(peer)), left[0] if left else None)

    def choose(self, links: Container[PeerId], parents: int) -> dict[PeerId, Role]:
        """The parents beside the first one, and the standbys: no children, and those that brought
        ROOT first, feasible ones first as parents."""
        fit = [p for p in self.offers if p in links and p not in self.children]
        kept = {p: self.offers[p].arrived_at - _KEEP * (p in self.asked) for p in fit}
        fit = sorted((p for p in fit if p != self.parent), key=kept.__getitem__)
        more = sorted(fit, key=lambda peer: not self.is_feasible(peer))[: parents - 1]
        self.parents = [*self.parents[:1], *more]
        standbys = [peer for peer in fit if peer not in more][:STANDBYS]
        return dict.fromkeys(self.parents, Role.PUSH) | dict.fromkeys(standbys, Role.ANNOUNCE)

    def take_parent(self, peer: PeerId) -> None:
        """`peer` replaces the first parent."""
        self.parents = [peer, *(p for p in self.parents[1:] if p != peer)]
        self.children.pop(peer, None)

    def forget(self, peer: PeerId) -> None:
        if peer in self.parents:
            self.parents.remove(peer)
        for table in (self.asked, self.children, self.offers, self.announce_to, self.services):
            table.pop(peer, None)

    def service(self, peer: PeerId | None) -> Service:
        """How `peer` has served this tree, as a read-only view."""
        return self.services.get(peer) or Service()

    def note_missed(self, peer: PeerId, now: Time) -> bool:
        """A parent or standby missed a message; whether it has failed by that."""
        service = self.services.setdefault(peer, Service())
        if not service.missed:
            service.missed_since = now
        service.missed += 1
        if service.missed < FAILED_AFTER or now - service.missed_since < _FAILED_WITHIN:
            return False
        service.excluded_until = now + min(_MOST_FAILED_FOR, _FAILED_FOR * 2**service.failures)
        service.failures += 1
        service.missed = 0
        self.offers.pop(peer, None)
        return True

    def note_served(self, peer: PeerId) -> None:
        """`peer` pushed or announced a message."""
        service = self.services.get(peer)
        if service is not None:
            service.missed = max(0, service.missed - 1)

    def note_late(self, peer: PeerId) -> None:
        """`peer` pushed what another had to be asked for: it gives way, and doesn't fail."""
        service = self.services.get(peer)
        if service is not None:
            service.missed = min(service.missed, ADOPT_AFTER)


class Trees(dict[SourceId, Tree]):
    """The trees that a node takes part in, by source, the least recently used first."""

    __slots__ = ()

    def named(self, sources: Sequence[SourceId]) -> Iterator[Tree]:
        """Those of `sources` that are known."""
        for source in sources:
            if source in self:
                yield self[source]

    def use(self, source: SourceId) -> Tree:
        """The tree of `source`, new if there is none; it becomes the last to be forgotten."""
        tree = self.get(source)
        if tree is None:
            tree = Tree(source)
            if len(self) >= MAX_TREES:
                # One that never carried a message, as anyone can send ROOTs; then one of the
                # neighbour that brought the most.
                others = [each for each in self.values() if not each.own]
                brought = Counter(each.parent for each in others)
                if others:
                    worst = min(others, key=lambda each: (each.proven, -brought[each.parent]))
                    del self[worst.source]
        put_last(self, source, tree, MAX_TREES)
        return tree

    def count_proven(self, share: int, now: Time) -> int:
        """Our own trees, and those that carry messages: `share` of each parent at most, or invented
        sources took all the room."""
        fresh = [tree for tree in self.values() if tree.is_fresh(now)]
        brought = Counter(tree.parent for tree in fresh if tree.proven and not tree.own)
        return sum(tree.own for tree in fresh) + sum(min(n, share) for n in brought.values())

    def nearest(self, links: Container[PeerId], now: Time) -> Tree | None:
        """The tree of the nearest source, of those that stand."""
        standing = (tree for tree in self.values() if tree.proven and tree.stands(now))
        linked = (tree for tree in standing if tree.parent in links)
        return min(linked, key=lambda tree: tree.cost, default=None)
