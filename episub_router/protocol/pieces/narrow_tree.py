"""The narrow trees along which pieces go: one for each source, with few children a node.

Ranks keep them free of cycles: a child's is larger than its parent's, and a node takes a larger
one than it has only while it has no children.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice

from episub_router.protocol.piece_messages import PieceWant
from episub_router.protocol.types import PeerId, SourceId, Time

MAX_TREES = 64
"""Trees known; the least recently used is forgotten first. As many as `source_trees`."""

TREE_IDLE = 120.0
"""Seconds that a tree stands after its last message; as long as trees of single sources."""

SHORT = 256 * 1024
"""Bytes up to which a message takes less time than a round trip over most uplinks: a third child
costs less than looking for another place. Measured, 150 nodes, 128 KiB, 20 Mbit/s, p99 of the first
message and of the others: 790 and 315 ms with two children, 394 and 298 with three, 381 and 346
with four."""

TRIM_AFTER = 5.0
"""Seconds after a longer message until the third child has to go. Ours: it has it by then."""

MAX_RANK = 1 << 16
"""Ranks from this one on aren't believed."""


class NarrowTree:
    """One node's part in the narrow tree of one source."""

    __slots__ = (
        "announcers", "asking", "carried", "children", "failed", "former", "longest", "offered_at",
        "offers", "own", "parent", "pushed_at", "rank", "refused", "retries", "used_at", "waiting",
    )  # fmt: skip

    def __init__(self, own: bool, now: Time) -> None:
        self.own = own
        """Whether we are the source."""
        self.parent: PeerId | None = None
        self.former: PeerId | None = None
        """The parent that we left last: some pieces may be on their way from it."""
        self.pushed_at = now
        """When the parent last sent a piece, or became the parent."""
        self.failed: dict[PeerId, Time] = {}
        """Parents that brought nothing, and when: none, for a while."""
        self.rank = 0
        """Milliseconds from the source by way of the parents, roughly; kept while there is no
        parent."""
        self.children: dict[PeerId, None] = {}
        self.waiting: dict[PeerId, tuple[PieceWant, ...]] = {}
        """Neighbours that asked for a place before we had one, and what they lacked."""
        self.offers: dict[PeerId, int] = {}
        """Neighbours with a place, in the order in which they said so, and their ranks."""
        self.offered_at: dict[PeerId, Time] = {}
        """When they last said so."""
        self.refused: dict[PeerId, None] = {}
        """Those that have none after all."""
        self.announcers: dict[PeerId, None] = {}
        """Neighbours that announced the newest message to us: only those are known to pass on. One
        that has it from us doesn't, and is farther from the source."""
        self.asking: PeerId | None = None
        """The neighbour that was asked for a place, and hasn't answered."""
        self.retries = 0
        """How often all have refused since we last had a parent."""
        self.longest = 0
        """Bytes of the longest message so far."""
        self.used_at = now
        self.carried = False
        """Whether a piece has come along it."""

    @property
    def stands(self) -> bool:
        """Whether pieces come here, so that children can be taken."""
        return self.own or self.parent is not None

    @property
    def eviction_rank(self) -> int:
        """Those with less go first."""
        return 0 if not self.stands else 3 if self.own else 2 if self.carried else 1

    def most_children(self, most: int) -> int:
        """How many a node may have here that has up to `most` where messages are long."""
        return most + 1 if most and 0 < self.longest <= SHORT else most

    @property
    def places_taken(self) -> int:
        return len(self.children) + len(self.waiting)

    def by_hope(self, now: Time, round_trip: Callable[[PeerId], float]) -> list[PeerId]:
        """Those that offered places, the likeliest to have one still first. While a message builds
        the tree places go fast: they are free where they were offered last, by near neighbours; and
        those that only announced a message may wait for one themselves."""

        def despair(peer: PeerId) -> tuple[bool, float]:
            age = now - self.offered_at.get(peer, now)
            return self.offers[peer] >= MAX_RANK, age + round_trip(peer)

        return sorted(self.offers, key=despair)

    def candidates(
        self, neighbors: Collection[PeerId], offers: Collection[PeerId] | None = None
    ) -> Iterator[PeerId]:
        """The neighbours that may have a place for us, those that announced the last message first,
        else in the order of `offers`, or that in which they offered one; only those that are nearer
        to the source than we are, while we have children."""
        order = self.offers if offers is None else offers
        for peer in sorted(order, key=lambda peer: peer not in self.announcers):
            nearer = self.offers[peer] < self.rank or not self.children
            if (
                nearer
                and peer in neighbors
                and peer not in self.refused
                and peer not in self.failed
                and peer not in self.children
                and peer != self.parent
            ):
                yield peer

    def forget_failures(self, before: Time) -> None:
        """Those that failed before that time are candidates again."""
        self.failed = {peer: at for peer, at in self.failed.items() if at > before}

    def remove(self, peer: PeerId) -> None:
        """`peer` is no neighbour any more."""
        self.children.pop(peer, None)
        self.waiting.pop(peer, None)
        self.offers.pop(peer, None)
        self.offered_at.pop(peer, None)
        self.refused.pop(peer, None)
        self.announcers.pop(peer, None)
        self.failed.pop(peer, None)
        if self.parent == peer:
            self.parent = None
        if self.asking == peer:
            self.asking = None


class NarrowTrees:
    """The trees that this node takes part in, at most `MAX_TREES`."""

    __slots__ = ("_by_source", "_on_eviction")

    def __init__(self, on_eviction: Callable[[SourceId], None] = lambda source: None) -> None:
        """`on_eviction` is called with the source of a tree that makes room for another."""
        self._by_source: dict[SourceId, NarrowTree] = {}
        self._on_eviction = on_eviction

    def get(self, source: SourceId) -> NarrowTree | None:
        return self._by_source.get(source)

    def items(self) -> Iterator[tuple[SourceId, NarrowTree]]:
        return iter(list(self._by_source.items()))

    def use(self, source: SourceId, now: Time, *, own: bool = False) -> NarrowTree:
        """The tree of `source`, made if there is none or it has been idle for too long."""
        tree = self._by_source.pop(source, None)
        if tree is None or now - tree.used_at > TREE_IDLE or tree.own < own:
            before = tree
            tree = NarrowTree(own, now)
            if before is not None:
                tree.offers, tree.carried = before.offers, before.carried
                tree.offered_at, tree.longest = before.offered_at, before.longest
        tree.used_at = now
        self._by_source[source] = tree
        if len(self._by_source) > MAX_TREES:
            # Anyone can offer and give places in the trees of made-up sources, which carry nothing;
            # nobody can make up one of our own. Of equal ones `min` takes the first.
            others = islice(self._by_source.items(), MAX_TREES)
            evicted = min(others, key=lambda known: known[1].eviction_rank)[0]
            del self._by_source[evicted]
            self._on_eviction(evicted)
        return tree

    def has_room(self, tree: NarrowTree, most: int) -> bool:
        """Whether `tree` has a place, where a node has up to `most` children in each.

        In all trees together it has half of that for each, and as many more as one tree has: the
        average is one child a tree, and where several sources publish at once a node that is inside
        of all of them would be late in all.
        """
        most_here = tree.most_children(most)
        if tree.own:
            return tree.places_taken < max(1, most_here)
        if tree.places_taken >= most_here:
            return False
        used = [t for t in self._by_source.values() if t.stands or t.asking is not None]
        in_all = max(most_here, most * (len(used) + 1) // 2)
        return sum(tree.places_taken for tree in used) < in_all

    def clear(self) -> None:
        self._by_source.clear()
