"""How the narrow tree of a source is built: places are offered, asked for, given and refused.

A node that has a parent offers places to its neighbours. One without asks those that offered, in
order; one that has its fill refuses and names its children, which are asked next.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from episub_router.protocol import piece_messages as m
from episub_router.protocol.effects import DropReason
from episub_router.protocol.pieces.narrow_tree import MAX_RANK, MAX_TREES, RETRY, NarrowTree
from episub_router.protocol.pieces.state import ASK, RECENT, PiecesState
from episub_router.protocol.pieces.transfers import Transfer
from episub_router.protocol.types import PeerId, SourceId, Time

_ANSWER_TIME = 1.0
"""Seconds that a neighbour has to answer: two round trips of the longest links, and a frame that
is being sent. Chosen."""

_WAIT_TIME = 0.3
"""Likewise for one that has announced a message, and may wait for a place itself. Chosen: others
may have offered places meanwhile."""

_LEAF_WAIT = 0.5
"""Seconds that a host without places of its own waits before it asks for one: more than a round
trip of the longest links. Measured, uplinks of 10 to 1,000 Mbit/s, a source with 10: 80 nodes, seed
1, p50 912 ms, and 3.8 s without; 120 nodes, seed 4, 1.02 s (0.25: 1.04), and 4.6 s."""

_WORTH_MOVING = 30
"""Milliseconds that the way over another parent must save; one hop over a short link takes that."""

_FAILED_FOR = 600.0
"""Seconds that a neighbour is no candidate for a parent after it brought nothing as one; as long as
a ban. Measured, 300 nodes, a fifth of them free-riders, a message each 30 s, seed 2: with 120 they
are tried again at the seventh and eighth message (p99 2.7 and 2.0 s; with 600, 2.0 and 1.4)."""


class TreeBuilding:
    """Offers, asks for, gives and refuses places in the trees of pieces."""

    __slots__ = ("_state",)

    def __init__(self, state: PiecesState) -> None:
        self._state = state

    def greet(self, peer: PeerId) -> None:
        """Notify a new neighbour that we take pieces, and where we have places."""
        offers = [
            m.TreeOffer(tree.source, tree.rank)
            for tree in self._state.trees.values()
            if tree.stands and self._state.has_room(tree)
        ]
        self._state.send(peer, m.PieceOffer(tuple(offers[:MAX_TREES])))

    def offer_places(self, tree: NarrowTree) -> None:
        """Offer places in the tree of `source`, if it has some, to all that may need one."""
        if not tree.stands or not self._state.has_room(tree):
            return
        offer = m.PieceOffer((m.TreeOffer(tree.source, tree.rank),))
        for peer in self._state.takers:
            if peer != tree.parent and peer not in tree.children:
                self._state.send(peer, offer)

    def on_offer(self, peer: PeerId, message: m.PieceOffer, now: Time) -> None:
        """A neighbour has places, or has given us one."""
        trees = self._state.trees
        for source, rank in message.offers:
            tree = trees.get(source) or self._state.use_tree(source, now)
            if tree.own or rank >= MAX_RANK:
                continue
            tree.offers[peer] = rank, now
            if tree.barred.get(peer, now) <= now + RETRY:
                tree.barred.pop(peer, None)  # It has refused, and not failed.
            if not message.accepted:
                self.seek(tree, now)
                if self._state.places:  # Others leave it to these, as `seek` does.
                    self.improve(tree, now)
            elif tree.asking == peer:
                self._attach(tree, peer, rank, now)
            elif tree.parent == peer:
                self._take_rank(tree, rank)
            else:
                self._state.send(peer, m.PiecePrune(source))  # Its answer came too late.

    def _attach(self, tree: NarrowTree, parent: PeerId, rank: int, now: Time) -> None:
        tree.asking = None
        self._state.timers.cancel((ASK, tree.source))
        if tree.children and rank >= tree.rank:
            # Nearer when we asked; below us it might close a cycle.
            self._state.send(parent, m.PiecePrune(tree.source))
            tree.bar(parent, now + RETRY)
            self.seek(tree, now)
            return
        had_parent = tree.parent is not None
        if tree.parent not in (None, parent):
            self._state.send(tree.parent, m.PiecePrune(tree.source))
        tree.parent, tree.pushed_at = parent, now
        self._take_rank(tree, rank)
        if had_parent:
            self.improve(tree, now)
            return
        waiting, tree.waiting = tree.waiting, {}
        waiting.pop(parent, None)  # It found another place.
        for child, wants in waiting.items():
            self._accept(child, tree, wants, now)
        self.offer_places(tree)

    def _take_rank(self, tree: NarrowTree, rank: int) -> None:
        """The parent has this `rank`; those below us are as much nearer to the source as we are."""
        below = self._state.rank_below(tree.parent, rank)
        before, tree.rank = tree.rank, min(tree.rank, below) if tree.children else below
        if tree.rank < before:
            moved = m.PieceOffer((m.TreeOffer(tree.source, tree.rank),), accepted=True)
            for child in tree.children:
                self._state.send(child, moved)
            self.offer_places(tree)

    def improve(self, tree: NarrowTree, now: Time) -> None:
        """Ask for a place on a shorter way, where a neighbour that announced the last message has
        one; done between messages, as the first one has built the tree in a hurry."""
        state = self._state
        if tree.parent is None or tree.asking is not None:
            return
        if state.transfers.is_under_way(tree.source):
            return
        ways = {
            peer: state.rank_below(peer, tree.offers[peer][0])
            for peer in self._candidates(tree, now)
            if peer in tree.announcers
        }
        peer = min(ways, key=ways.__getitem__, default=None)
        if peer is not None and ways[peer] + _WORTH_MOVING <= tree.rank:
            self._ask(tree, peer, now + _ANSWER_TIME)

    def seek(self, tree: NarrowTree, now: Time) -> None:
        """Ask for a place in the tree of `source`, if we need one and haven't asked.

        Without places of our own we ask a little later: a tree ends where such a host has the only
        place that is left.
        """
        if self._state.places:
            self._ask_next(tree, now)
        elif not tree.stands and tree.asking is None:
            self._state.timers.set_earliest((ASK, tree.source), now + _LEAF_WAIT)

    def _candidates(self, tree: NarrowTree, now: Time) -> list[PeerId]:
        return tree.candidates(self._state.takers, now, self._state.rtt_of)

    def _ask_next(self, tree: NarrowTree, now: Time) -> None:
        """Ask the next candidate for a place, if we need one and haven't asked."""
        state = self._state
        if tree.stands or tree.asking is not None:
            return
        candidates = self._candidates(tree, now)
        if not candidates and tree.children:
            # Only those below us, or as far, have places. Without children we may take any.
            for child in tree.children:
                state.send(child, m.PiecePrune(tree.source))
            tree.children.clear()
            candidates = self._candidates(tree, now)
        if candidates:
            has_offered = tree.offers[candidates[0]][0] < MAX_RANK
            until = now + (_ANSWER_TIME if has_offered else _WAIT_TIME)
            self._ask(tree, candidates[0], until)
            return
        waiting, tree.waiting = tree.waiting, {}
        for child in waiting:
            self._refuse(child, tree.source, tree)
        if state.transfers.is_under_way(tree.source):
            state.timers.set_earliest((ASK, tree.source), now + RETRY)

    def _ask(self, tree: NarrowTree, peer: PeerId, until: Time) -> None:
        """Ask `peer` for a place; it has `until` then to answer."""
        known = self._state.transfers.of_source(tree.source)
        wants = [m.PieceWant(transfer.preamble.id, transfer.missing) for transfer in known]
        tree.asking = peer
        self._state.timers.set((ASK, tree.source), until)
        self._state.send(peer, m.PieceGraft(tuple(wants[-m.MAX_WANTS :]), tree.source))

    def fire(self, source: SourceId, now: Time) -> None:
        """Neighbours that refused may have a place now; or an answer is overdue."""
        tree = self._state.trees.get(source)
        if tree is None:
            return
        if tree.asking is not None:
            tree.bar(tree.asking, now + RETRY)
            if tree.asking not in tree.children:
                self._state.send(tree.asking, m.PiecePrune(source))
            tree.asking = None
        self._ask_next(tree, now)

    def note_size(self, tree: NarrowTree, size: int) -> None:
        """A message of `size` bytes goes along the tree of `source`: a long one leaves no room for
        the children that only a tree of short messages may have."""
        tree.longest = max(tree.longest, size)
        most = tree.most_children(self._state.places)
        for child in [*tree.children][most:]:
            del tree.children[child]
            self._refuse(child, tree.source, tree)

    def on_graft(
        self, peer: PeerId, source: SourceId, wants: Iterable[m.PieceWant], now: Time
    ) -> None:
        """`peer` asks for a place in the tree of `source`, and says what it lacks."""
        tree = self._state.trees.get(source)
        has_room = tree is not None and (peer in tree.children or self._state.has_room(tree))
        if tree is None or peer == tree.parent or not has_room:
            self._refuse(peer, source, tree)
        elif tree.stands:
            self._accept(peer, tree, wants, now)
        elif tree.asking not in (None, peer):
            # Asked on the word of our announcement: it has its place when we have ours.
            tree.children.pop(peer, None)
            tree.waiting[peer] = tuple(wants)
        else:
            self._refuse(peer, source, tree)

    def _refuse(self, peer: PeerId, source: SourceId, tree: NarrowTree | None) -> None:
        taken = [] if tree is None else [*tree.children, *tree.waiting]
        named = islice((child for child in taken if child != peer), m.MAX_NAMED)
        self._state.send(peer, m.PiecePrune(source, tuple(named)))

    def _accept(
        self, peer: PeerId, tree: NarrowTree, wants: Iterable[m.PieceWant], now: Time
    ) -> None:
        state = self._state
        tree.children[peer] = None
        state.send(peer, m.PieceOffer((m.TreeOffer(tree.source, tree.rank),), accepted=True))
        missing = dict(wants)
        for transfer in state.transfers.of_source(tree.source):
            id = transfer.preamble.id
            if id in missing:
                transfer.note_has(peer, transfer.everything & ~missing[id])
                if not transfer.note_lacks(peer, transfer.everything & missing[id]):
                    state.drop(peer, DropReason.GRAFT_REPEATED)
                    continue
            elif transfer.whole_at is None or now - transfer.whole_at < RECENT:
                state.announce(transfer, peer)
            else:
                continue  # It may be long past; a newcomer is offered it when it says hello.
            state.push(transfer, peer, transfer.everything)

    def on_prune(self, peer: PeerId, message: m.PiecePrune, now: Time) -> None:
        """`peer` isn't our parent, or isn't our child any more."""
        state, source = self._state, message.source
        tree = state.trees.get(source)
        if tree is None or tree.waiting.pop(peer, None) is not None:
            return
        if peer in tree.children:
            had_room = self._state.has_room(tree)
            del tree.children[peer]
            if not had_room:
                self.offer_places(tree)
            return
        if peer not in (tree.asking, tree.parent):
            state.drop(peer, DropReason.UNSOLICITED)
            return
        if tree.asking == peer:
            tree.asking = None
            state.timers.cancel((ASK, source))
        if tree.parent == peer:
            tree.parent = None
        tree.bar(peer, now + RETRY)
        for child in message.instead:
            if child in state.takers:
                # Its rank isn't known; with children of our own we wait for its own word.
                tree.offers.setdefault(child, (MAX_RANK, now))
        self._ask_next(tree, now)
        self.improve(tree, now)

    def leave_parent(self, tree: NarrowTree, now: Time, *, failed: bool = False) -> None:
        """The parent is too slow, and may be asked again; or it has `failed`, and brought nothing.
        Where all but our children have failed it was probably not them."""
        if tree.parent is not None:
            self._state.send(tree.parent, m.PiecePrune(tree.source))
            tree.bar(tree.parent, now + (_FAILED_FOR if failed else RETRY))
            tree.parent = None
        failures = {peer for peer, until in tree.barred.items() if until > now + RETRY}
        if all(peer in failures or peer in tree.children for peer in self._state.takers):
            tree.barred.clear()
        self.seek(tree, now)

    def judge_parent(self, transfer: Transfer, now: Time) -> None:
        """`transfer` is whole: a parent from before it that brought nothing of it has failed."""
        tree = self._state.trees.get(transfer.preamble.source)
        if tree is None:
            return
        if tree.parent is not None and tree.pushed_at < transfer.announced_at:
            self.leave_parent(tree, now, failed=True)
        else:
            self.improve(tree, now)

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """Make do without `peer`."""
        for tree in self._state.trees.values():
            was_needed = peer in (tree.parent, tree.asking)
            had_room = self._state.has_room(tree)
            tree.remove(peer)
            if was_needed:
                self.seek(tree, now)
            elif not had_room:
                self.offer_places(tree)
