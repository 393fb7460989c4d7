"""The narrow trees along which pieces go: one for each source, with few children a node.

Ranks keep them free of cycles: a child's is larger than its parent's, and a node takes a larger
one than it has only while it has no children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from episub_router.protocol.piece_messages import PieceWant
from episub_router.protocol.types import PeerId, SourceId, Time

MAX_TREES = 64
"""Trees known; the least recently used is forgotten first. As many as `source_trees`."""

SHORT = 256 * 1024
"""Bytes up to which a message takes less time than a round trip over most uplinks: a third child
costs less than looking for another place. Measured, 150 nodes, 128 KiB, 20 Mbit/s, p99 of the first
message and of the others: 790 and 315 ms with two children, 394 and 298 with three, 381 and 346
with four."""

MAX_RANK = 1 << 16
"""Ranks from this one on aren't believed; that of a neighbour which may get a place."""

RETRY = 1.0
"""Seconds until neighbours that refused are asked again, while there is something to get."""


class NarrowTree:
    """One node's part in the narrow tree of one source."""

    __slots__ = (
        "announcers", "asking", "barred", "carried", "children", "longest", "offers", "own",
        "parent", "pushed_at", "rank", "source", "waiting",
    )  # fmt: skip

    def __init__(self, source: SourceId, own: bool, now: Time) -> None:
        self.source = source
        self.own = own  # Whether we are the source
        self.parent: PeerId | None = None
        self.pushed_at = now  # When the parent last sent a piece, or became the parent
        self.rank = 0
        """Milliseconds from the source by way of the parents, roughly; kept while there is no
        parent."""
        self.children: dict[PeerId, None] = {}
        self.waiting: dict[PeerId, tuple[PieceWant, ...]] = {}
        """Neighbours that asked for a place before we had one, and what they lacked."""
        self.offers: dict[PeerId, tuple[int, Time]] = {}
        """Neighbours that may have a place, their ranks, and when they said so."""
        self.barred: dict[PeerId, Time] = {}
        """Those that refused or failed as a parent, and until when they aren't asked."""
        self.announcers: dict[PeerId, None] = {}
        """Neighbours that announced the newest message to us: only those are known to pass on. One
        that has it from us doesn't, and is farther from the source."""
        self.asking: PeerId | None = None
        """The neighbour that was asked for a place, and hasn't answered."""
        self.longest = 0  # Bytes of the longest message so far
        self.carried = False  # Whether a piece has come along it

    @property
    def stands(self) -> bool:
        """Whether pieces come here, so that children can be taken."""
        return self.own or self.parent is not None

    def most_children(self, most: int) -> int:
        """How many a node may have here that has up to `most` where messages are long."""
        most += bool(most and 0 < self.longest <= SHORT)
        return max(most, 1) if self.own else most

    @property
    def places_taken(self) -> int:
        return len(self.children) + len(self.waiting)

    def candidates(
        self, neighbors: Iterable[PeerId], now: Time, round_trip: Callable[[PeerId], float]
    ) -> list[PeerId]:
        """The neighbours that may have a place for us, only those nearer to the source than we are
        while we have children; the likeliest to have one first. Those that announced the last
        message go before others, and those that have offered a place before those that may get one.
        While a message builds the tree places go fast: they are free where they were offered last,
        by near neighbours."""

        def despair(peer: PeerId) -> tuple[bool, bool, float]:
            rank, at = self.offers[peer]
            age = 0.0 if rank >= MAX_RANK else now - at
            return peer not in self.announcers, rank >= MAX_RANK, age + round_trip(peer)

        may_be_asked = (
            peer
            for peer in neighbors
            if peer in self.offers
            and (not self.children or self.offers[peer][0] < self.rank)
            and self.barred.get(peer, now) <= now
            and peer not in self.children
            and peer != self.parent
        )
        return sorted(may_be_asked, key=despair)

    def note_announcer(self, peer: PeerId, now: Time) -> None:
        """`peer` announces a message: it has a place that we may need, or will have one."""
        if not self.stands:
            self.offers.setdefault(peer, (MAX_RANK, now))

    def bar(self, peer: PeerId, until: Time) -> None:
        """Ask `peer` for no place before that time."""
        self.barred[peer] = max(until, self.barred.get(peer, until))

    def remove(self, peer: PeerId) -> None:
        """`peer` is no neighbour any more."""
        for table in (self.children, self.waiting, self.offers, self.barred, self.announcers):
            table.pop(peer, None)
        if self.parent == peer:
            self.parent = None
        if self.asking == peer:
            self.asking = None


class NarrowTrees(dict[SourceId, NarrowTree]):
    """The trees that this node takes part in, by source, at most `MAX_TREES`; the one used last
    comes last."""

    __slots__ = ()

    def use(
        self,
        source: SourceId,
        now: Time,
        *,
        own: bool = False,
        forget: Callable[[SourceId], None] = lambda source: None,
    ) -> NarrowTree:
        """The tree of `source`, made if there is none; `forget` is called with the source of one
        that makes room for it."""
        tree = self.pop(source, None)
        if tree is None or tree.own < own:
            tree = NarrowTree(source, own, now)
        self[source] = tree
        if len(self) > MAX_TREES:
            # Anyone can offer and give places in the trees of made-up sources, which carry nothing;
            # nobody can make up one of our own. Of equal ones `min` takes the first.
            others = islice(self.items(), MAX_TREES)
            ranks = {source: (t.own, t.stands, t.carried) for source, t in others}
            evicted = min(ranks, key=ranks.__getitem__)
            del self[evicted]
            forget(evicted)
        return tree

    def has_room(self, tree: NarrowTree, most: int) -> bool:
        """Whether `tree` has a place at a node with up to `most` children in each.

        In all trees together it has half of that for each, and as many more as one tree has: the
        average is one child a tree, and where several sources publish at once a node that is inside
        of all of them would be late in all.
        """
        most_here = tree.most_children(most)
        if tree.own or tree.places_taken >= most_here:
            return tree.places_taken < most_here
        used = [t for t in self.values() if t.stands or t.asking is not None]
        in_all = max(most_here, most * (len(used) + 1) // 2)
        return sum(tree.places_taken for tree in used) < in_all
