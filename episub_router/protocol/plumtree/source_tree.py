"""The trees of single sources, as one node knows them (E31).

Along a tree of its own a source's messages take the fastest way through the overlay. A node has
a parent and children in it; neighbours that brought the last ROOT later are the next parents.
"""

from __future__ import annotations

from collections.abc import Container, ItemsView, Iterator, Sequence
from typing import NamedTuple

from episub_router.protocol.messages import MAX_IDS
from episub_router.protocol.standing.failures import Failures
from episub_router.protocol.types import NEVER, PeerId, SourceId, Time

_SETUP = 0.5
"""Seconds from ROOT until its tree is used: GRAFT and its answer cross one link, whatever the
diameter; three times the longest round trip between continents."""

ROOT_INTERVAL = 20.0
"""Least time in seconds between two ROOTs of a source that nobody asked for. Measured: at 1 % churn
a second trees that lose nodes ask for one sooner."""

TREE_IDLE = 120.0
"""Seconds that a tree stands after its last ROOT: as long as ids are known."""

_KEEP_STANDBY = 0.02
"""Seconds that a standby's copy of ROOT may come later than that of the one to replace it."""

_PUSHED_WITHIN = 1.0
"""Seconds after the first copy within which the other parent's is there. Ours: twice the longest
time that a neighbour has to answer a GRAFT."""

_LINGERING = 2
"""Trees kept, in multiples of those that may stand; the rest have expired or carry nothing yet."""


class RootOffer(NamedTuple):
    """A neighbour's copy of the last ROOT: when it arrived, and the way to the source by it."""

    arrived_at: Time
    hops: int
    cost: float


class SourceTree:
    """One node's part in the tree of one source. Some 2 KB with seven neighbours."""

    __slots__ = (
        "announce_to",
        "carried",
        "children",
        "cost",
        "failures",
        "hops",
        "leaving",
        "misses",
        "offers",
        "own",
        "parent",
        "proven",
        "pushed",
        "pushed_at",
        "renewed",
        "requested",
        "root_at",
        "round",
        "safe",
        "second",
        "second_round",
        "standbys",
        "usable_at",
    )

    def __init__(self) -> None:
        self.parent: PeerId | None = None
        """The neighbour that pushes to us; None at the source, and where there is none left."""
        self.safe = True
        """Whether the parent was chosen by ROOT or is feasible, so that it closes no circle."""
        self.second: PeerId | None = None
        """The second parent in a protected topic: it pushes to us as the parent does."""
        self.second_round = -1
        """The round in which it got our last GRAFT."""
        self.pushed: set[PeerId] = set()
        """Where there are two parents, the neighbours that pushed the last message, ..."""
        self.pushed_at: Time = -NEVER
        """... and when it arrived first."""
        self.requested = -1
        """The last round after which a new one was asked for."""
        self.children: dict[PeerId, None] = {}
        """Neighbours that asked to be pushed to."""
        self.standbys: list[PeerId] = []
        """Neighbours that we asked to announce each message at once."""
        self.announce_to: dict[PeerId, None] = {}
        """Neighbours that asked us to do so."""
        self.leaving: dict[PeerId, Time] = {}
        """Former parents, and when to PRUNE them: messages in flight come to us through them."""
        self.offers: dict[PeerId, RootOffer] = {}
        """The neighbours that brought the last ROOT, in the order in which they did."""
        self.round = -1
        self.hops = 0
        """Links from the source."""
        self.cost = 0.0
        """Seconds from the source, as the nodes on the way estimate them."""
        self.root_at: Time = -NEVER
        """When the last ROOT arrived, or was sent if the tree is our own."""
        self.usable_at: Time = NEVER
        self.own = False
        """Whether we are the source."""
        self.proven = False
        """Whether a message of the source has arrived."""
        self.carried = 0
        """Messages along this tree since the last ROOT."""
        self.renewed = False
        """Whether the last ROOT came after a message along the tree: its source is there."""
        self.misses = 0
        """Messages in a row that the parent did not push."""
        self.failures = Failures()
        """Of neighbours that did not push, or not announce."""

    def is_parent(self, peer: PeerId) -> bool:
        """Whether `peer` is to push to us."""
        return peer == self.parent or peer == self.second

    def note_push(self, peer: PeerId) -> None:
        """`peer` pushed a message without being asked."""
        self.failures.note_push(peer)
        if self.second is not None:
            self.pushed.add(peer)

    def silent_parents(self, pusher: PeerId | None, now: Time) -> list[PeerId]:
        """A message came first from `pusher`: those of two parents that had time to push the one
        before, and did not, while the other did."""
        if now < self.pushed_at + _PUSHED_WITHIN:
            return []
        parents = [peer for peer in (self.parent, self.second) if peer is not None]
        silent = [peer for peer in parents if peer not in self.pushed]
        self.pushed_at = now
        self.pushed = set() if pusher is None else {pusher}
        return silent if silent != parents else []

    def note_failure(self, peer: PeerId, now: Time) -> None:
        """`peer` did not push or announce what it was asked to: it is no candidate for a while."""
        self.failures.note(peer, now)
        self.offers.pop(peer, None)

    def is_helper(self, peer: PeerId) -> bool:
        """Whether `peer` is a standby or the second parent."""
        return peer in self.standbys or peer == self.second

    def forget(self, peer: PeerId) -> None:
        """`peer` isn't a neighbour any more, nor a helper."""
        if peer in self.standbys:
            self.standbys.remove(peer)
        if peer == self.second:
            self.second = None
        for table in (self.children, self.offers, self.announce_to, self.leaving):
            table.pop(peer, None)
        self.pushed.discard(peer)
        self.failures.forget(peer)

    def is_feasible(self, peer: PeerId) -> bool:
        """Whether `peer` may become the parent: it is nearer to the source than we are, by the
        costs of the last ROOT. While every node keeps to that, parents form no circle (the
        feasibility condition of Babel, RFC 8966, section 2.4)."""
        offer = self.offers.get(peer)
        return offer is not None and offer.cost < self.cost and peer not in self.children

    def may_lead(self, peer: PeerId) -> bool:
        """Whether `peer` may know a way to the source: it is no child, and has not failed."""
        return peer not in self.children and peer not in self.failures

    def next_parent(self, neighbors: Container[PeerId]) -> PeerId | None:
        """The neighbour to replace a lost parent: a feasible second parent, else the first to bring
        the last ROOT, of those that are feasible if there is one. Another may close a circle,
        which the next message opens."""
        if self.second is not None and self.second in neighbors and self.is_feasible(self.second):
            return self.second
        left = [peer for peer in self.offers if peer in neighbors and peer not in self.children]
        feasible = (peer for peer in left if self.is_feasible(peer))
        return next(feasible, left[0] if left else None)

    def take_parent(self, peer: PeerId) -> None:
        """`peer` is the parent from now on."""
        self.parent = peer
        self.safe = self.is_feasible(peer)
        self.misses = 0
        if peer == self.second:
            self.second = None
        elif self.second is not None:
            self.pushed.add(peer)
        self.children.pop(peer, None)
        self.leaving.pop(peer, None)

    def take_second(self, peer: PeerId | None, now: Time) -> None:
        """`peer` is the second parent from now on, and gets a GRAFT; the former one is left."""
        former = self.second
        if former is not None and former != peer:
            self.leaving[former] = now
        self.second, self.second_round = peer, self.round
        if peer is not None and peer != former:
            self.leaving.pop(peer, None)
            # Neither owes the message before.
            self.pushed = {each for each in (peer, self.parent) if each is not None}

    def choose_second(self, neighbors: Container[PeerId], now: Time) -> PeerId | None:
        """Choose the second parent where there is none, and after each ROOT; returns it if there is
        one to GRAFT: the last GRAFT may be lost.

        The present one if it brought the last ROOT, too, else the first to bring it after the
        parent, of those that are feasible if there is one. As duplicates aren't pushed on, it may
        be any but a child; one that takes us as its own second parent meanwhile stays.
        """
        if self.second is not None and self.second_round == self.round:
            return None
        fit = self._after_parent(neighbors)
        best = next(filter(self.is_feasible, fit), fit[0] if fit else None)
        self.take_second(self.second if self.second in fit else best, now)
        return self.second

    def _after_parent(self, neighbors: Container[PeerId]) -> list[PeerId]:
        """The neighbours but the parent and children that brought the last ROOT, in order."""
        others = (peer for peer in self.offers if peer in neighbors and peer != self.parent)
        return [peer for peer in others if peer not in self.children]

    def choose_standbys(
        self, neighbors: Container[PeerId], count: int
    ) -> tuple[list[PeerId], list[PeerId]]:
        """Choose the `count` neighbours that brought the last ROOT first, after the parents;
        returns those that are new, and former ones to PRUNE. One that is a standby
        already stays if it was hardly later, or each ROOT would change them."""
        fit = [peer for peer in self._after_parent(neighbors) if peer != self.second]
        best = fit[:count]
        former, self.standbys = self.standbys, best
        for peer in former:
            if peer in fit and peer not in best and best:
                delay = self.offers[peer].arrived_at - self.offers[best[-1]].arrived_at
                if delay <= _KEEP_STANDBY:
                    best[-1] = peer
        added = [peer for peer in best if peer not in former]
        left = (peer for peer in former if peer not in best and peer in neighbors)
        return added, [peer for peer in left if peer != self.parent]


class SourceTrees:
    """The trees that a node takes part in. At most `most` of them stand at a time; twice as many
    are kept, and the least recently used are forgotten first."""

    __slots__ = ("_by_source", "misses", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.misses: dict[PeerId, int] = {}
        """Messages in a row, of all trees, that a parent did not push."""
        self._by_source: dict[SourceId, SourceTree] = {}

    def __len__(self) -> int:
        return len(self._by_source)

    def items(self) -> ItemsView[SourceId, SourceTree]:
        return self._by_source.items()

    def get(self, source: SourceId | None) -> SourceTree | None:
        return self._by_source.get(source)

    def named(self, sources: Sequence[SourceId]) -> Iterator[tuple[SourceId, SourceTree]]:
        """The trees of those of `sources` that are known; of the first `MAX_IDS`."""
        for source in sources[:MAX_IDS]:
            tree = self._by_source.get(source)
            if tree is not None:
                yield source, tree

    def use(self, source: SourceId) -> SourceTree:
        """The tree of `source`, made if there is none; it becomes the last to be forgotten."""
        by_source = self._by_source
        tree = by_source.pop(source, None)
        if tree is None:
            tree = SourceTree()
            if len(by_source) >= _LINGERING * self.most:
                self._forget_one()
        by_source[source] = tree
        return tree

    def _forget_one(self) -> None:
        # A tree that never carried a message is worth least: anyone can send ROOTs.
        least_recent = next(iter(self._by_source))
        others = [source for source, tree in self._by_source.items() if not tree.own]
        unproven = (source for source in others if not self._by_source[source].proven)
        del self._by_source[next(unproven, others[0] if others else least_recent)]

    def note_root(self, tree: SourceTree, now: Time) -> None:
        """A new ROOT of `tree` arrived, or goes out from us."""
        if not self.stands(tree, now):
            tree.usable_at = now + _SETUP
        tree.root_at = now
        tree.carried = 0

    def stands(self, tree: SourceTree, now: Time) -> bool:
        """Whether messages may be pushed along `tree`."""
        return tree.usable_at <= now <= tree.root_at + TREE_IDLE

    def is_fresh(self, tree: SourceTree, now: Time) -> bool:
        """Whether the last ROOT of `tree` still counts."""
        return now <= tree.root_at + TREE_IDLE

    def has_room(self, now: Time) -> bool:
        """Whether one more source may have a tree. Trees that carried no message don't count, or
        invented ones could take all the room."""
        oldest = now - TREE_IDLE
        return (
            sum((t.own or t.proven) and t.root_at >= oldest for t in self._by_source.values())
            < self.most
        )

    def nearest(self, neighbors: Container[PeerId], now: Time) -> SourceId | None:
        """The nearest source with a tree that stands, None if there is none."""
        best: SourceId | None = None
        least = NEVER
        for source, tree in self._by_source.items():
            if not tree.proven or tree.cost >= least or tree.parent not in neighbors:
                continue
            if self.stands(tree, now):
                best, least = source, tree.cost
        return best

    def children_of(self, parent: PeerId) -> list[tuple[SourceId, SourceTree]]:
        """The trees in which `parent` is the parent."""
        return [entry for entry in self._by_source.items() if entry[1].parent == parent]

    def clear(self) -> None:
        self._by_source.clear()
        self.misses.clear()


def in_parts(sources: list[SourceId]) -> list[tuple[SourceId, ...]]:
    """`sources` in parts that one message may name."""
    return [tuple(sources[start : start + MAX_IDS]) for start in range(0, len(sources), MAX_IDS)]


def take_due(deadlines: dict[SourceId, Time], now: Time) -> list[SourceId]:
    """Take the keys whose deadline has come out of `deadlines`."""
    due = [key for key, deadline in deadlines.items() if deadline <= now]
    for key in due:
        del deadlines[key]
    return due
