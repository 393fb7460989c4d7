"""How the narrow tree of a source is built: places are offered, asked for, given and refused.

A node that has a parent offers places to its neighbours. One without asks those that offered, in
order; one that has its fill refuses and names its children, which are asked next.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from episub_router.protocol.effects import DropReason
from episub_router.protocol.piece_messages import (
    MAX_NAMED,
    MAX_WANTS,
    PieceGraft,
    PieceOffer,
    PiecePrune,
    PieceWant,
    TreeOffer,
)
from episub_router.protocol.pieces.narrow_tree import (
    MAX_RANK,
    MAX_TREES,
    TREE_IDLE,
    TRIM_AFTER,
    NarrowTree,
)
from episub_router.protocol.pieces.state import (
    ANSWER,
    ASK,
    RECENT,
    RETRY,
    TRIM,
    PiecesState,
)
from episub_router.protocol.pieces.transfer import Transfer
from episub_router.protocol.types import PeerId, SourceId, Time

_ANSWER_TIME = 1.0
"""Seconds that a neighbour has to answer: two round trips of the longest links, and a frame that
is being sent. Ours."""

_WAIT_TIME = 0.3
"""Likewise for one that has announced a message, and may wait for a place itself. Ours: others may
have offered places meanwhile."""

_LEAF_WAIT = 0.5
"""Seconds that a host without places of its own waits before it asks for one: more than a round
trip of the longest links. Measured, uplinks of 10 to 1,000 Mbit/s, a source with 10: 80 nodes, seed
1, p50 912 ms, and 3.8 s without; 120 nodes, seed 4, 1.02 s (0.25: 1.04), and 4.6 s."""

_RETRY = 1.0
"""Seconds until neighbours that refused are asked again, while there is something to get."""

_MOST_DOUBLINGS = 4
"""Of these seconds, each time that all have refused while there is nothing to get."""

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

    # Offers

    def greet(self, peer: PeerId) -> None:
        """Tell a new neighbour that we take pieces, and where we have places."""
        offers = [
            TreeOffer(source, tree.rank)
            for source, tree in self._state.trees.items()
            if tree.stands and self._has_room(tree)
        ]
        self._state.send(peer, PieceOffer(tuple(offers[:MAX_TREES])))

    def offer_places(self, source: SourceId, tree: NarrowTree) -> None:
        """Offer places in the tree of `source`, which stands here, to all that may need one."""
        if not self._has_room(tree):
            return
        offer = PieceOffer((TreeOffer(source, tree.rank),))
        for peer in self._state.takers:
            if peer != tree.parent and peer not in tree.children:
                self._state.send(peer, offer)

    def on_offer(self, peer: PeerId, message: PieceOffer, now: Time) -> None:
        """A neighbour has places, or has given us one."""
        trees = self._state.trees
        for source, rank in message.offers[:MAX_TREES]:
            tree = trees.get(source) or trees.use(source, now)
            if tree.own or not 0 <= rank < MAX_RANK:
                continue
            tree.offers[peer], tree.offered_at[peer] = rank, now
            tree.refused.pop(peer, None)
            if not message.accepted:
                self.seek(source, tree, now)
                if self._state.params.piece_children:  # Others leave it to these, as `seek` does.
                    self.improve(source, now)
            elif tree.asking == peer:
                self._attach(source, tree, peer, rank, now)
            elif tree.parent == peer:
                self._take_rank(source, tree, rank)
            else:
                # Its answer came too late.
                self._state.send(peer, PiecePrune(source))

    def _attach(
        self, source: SourceId, tree: NarrowTree, parent: PeerId, rank: int, now: Time
    ) -> None:
        self._ask_no_more(source, tree)
        self._state.timers.cancel((RETRY, source))
        tree.retries = 0
        if tree.children and rank >= tree.rank:
            # Nearer when we asked; below us it might close a cycle.
            self._state.send(parent, PiecePrune(source))
            tree.refused[parent] = None
            self.seek(source, tree, now)
            return
        if tree.parent not in (None, parent):
            self._state.send(tree.parent, PiecePrune(source))
            tree.former = tree.parent
        had_parent = tree.parent is not None
        tree.parent, tree.pushed_at = parent, now
        self._take_rank(source, tree, rank)
        if had_parent:
            self.improve(source, now)
            return
        tree.refused.clear()
        waiting, tree.waiting = tree.waiting, {}
        waiting.pop(parent, None)  # It found another place.
        for child, wants in waiting.items():
            self._accept(child, source, tree, wants, now)
        self.offer_places(source, tree)

    def _take_rank(self, source: SourceId, tree: NarrowTree, rank: int) -> None:
        """The parent has this `rank`; those below us are as much nearer to the source as we are."""
        assert tree.parent is not None
        below = self._state.rank_below(tree.parent, rank)
        before, tree.rank = tree.rank, min(tree.rank, below) if tree.children else below
        if tree.rank < before:
            moved = PieceOffer((TreeOffer(source, tree.rank),), accepted=True)
            for child in tree.children:
                self._state.send(child, moved)
            self.offer_places(source, tree)

    def improve(self, source: SourceId, now: Time) -> None:
        """Ask for a place on a shorter way, where a neighbour that announced the last message has
        one; done between messages, as the first one has built the tree in a hurry."""
        state, tree = self._state, self._state.trees.get(source)
        if tree is None or tree.parent is None or tree.asking is not None:
            return
        if state.transfers.is_under_way(source):
            return
        tree.forget_failures(now - _FAILED_FOR)
        ways = {
            peer: state.rank_below(peer, tree.offers[peer])
            for peer in tree.candidates(state.givers)
            if peer in tree.announcers
        }
        peer = min(ways, key=ways.__getitem__, default=None)
        if peer is not None and ways[peer] + _WORTH_MOVING <= tree.rank:
            self._ask(source, tree, peer, now + _ANSWER_TIME)

    def note_pushed(self, source: SourceId, tree: NarrowTree, peer: PeerId, now: Time) -> None:
        """`peer`, which we asked for a place, pushes: its answer was lost."""
        rank = tree.offers.get(peer, MAX_RANK)
        if rank < MAX_RANK:
            self._attach(source, tree, peer, rank, now)

    # Asking

    def note_bringer(self, peer: PeerId, source: SourceId) -> None:
        """`peer` announces a message of `source`: it has a place, or will have one. Those that
        bring the first announcement are on short ways from the source, and form no cycle."""
        tree = self._state.trees.get(source)
        if tree is not None and not tree.stands:
            tree.offers.setdefault(peer, MAX_RANK)

    def seek(self, source: SourceId, tree: NarrowTree, now: Time) -> None:
        """Ask for a place in the tree of `source`, if we need one and haven't asked.

        Without places of our own we ask a little later: a tree ends where such a host has the only
        place that is left.
        """
        if self._state.params.piece_children:
            self._ask_next(source, tree, now)
        elif not tree.stands and tree.asking is None:
            self._state.timers.set_earliest((ASK, source), now + _LEAF_WAIT)

    def _ask_next(self, source: SourceId, tree: NarrowTree, now: Time) -> None:
        """Ask the next candidate for a place, if we need one and haven't asked."""
        state = self._state
        state.timers.cancel((ASK, source))
        if tree.stands or tree.asking is not None:
            return
        hurries = state.transfers.is_under_way(source)
        order = tree.by_hope(now, lambda peer: state.round_trips(peer, 1)) if hurries else None
        peer = next(tree.candidates(state.givers, order), None)
        if peer is None and tree.children:
            # Only those below us, or as far, have places. Without children we may take any.
            for child in tree.children:
                state.send(child, PiecePrune(source))
            tree.children.clear()
            peer = next(tree.candidates(state.givers, order), None)
        if peer is None:
            waiting, tree.waiting = tree.waiting, {}
            for child in waiting:
                self._refuse(child, source, tree)
            state.timers.set_earliest((RETRY, source), now + _RETRY * float(1 << tree.retries))
            return
        state.timers.cancel((RETRY, source))
        has_offered = tree.offers[peer] < MAX_RANK
        self._ask(source, tree, peer, now + (_ANSWER_TIME if has_offered else _WAIT_TIME))

    def _ask(self, source: SourceId, tree: NarrowTree, peer: PeerId, until: Time) -> None:
        """Ask `peer` for a place; it has `until` then to answer."""
        tree.asking = peer
        self._state.timers.set((ANSWER, source), until)
        self._state.send(peer, PieceGraft(self._wants(source), source))

    def _ask_no_more(self, source: SourceId, tree: NarrowTree) -> None:
        """The neighbour that was asked has answered, or has left."""
        tree.asking = None
        self._state.timers.cancel((ANSWER, source))

    def _wants(self, source: SourceId) -> tuple[PieceWant, ...]:
        """What is missing of the messages of `source` that we know of."""
        known = self._state.transfers.of_source(source)
        wants = [PieceWant(transfer.preamble.id, transfer.missing) for transfer in known]
        return tuple(wants[-MAX_WANTS:])

    def fire(self, kind: str, source: SourceId, now: Time) -> None:
        """A timer of the tree of `source` is due."""
        tree = self._state.trees.get(source)
        if tree is None:
            return
        if kind == ANSWER and tree.asking is not None:
            tree.refused[tree.asking] = None
            if tree.asking not in tree.children:
                self._state.send(tree.asking, PiecePrune(source))
            tree.asking = None
            self._ask_next(source, tree, now)
        elif kind == ASK:
            self._ask_next(source, tree, now)
        elif kind == RETRY:
            self._start_over(source, tree, now)
        elif kind == TRIM:
            for child in [*tree.children][self._most_children(tree) :]:
                del tree.children[child]
                self._refuse(child, source, tree)

    def note_size(self, source: SourceId, tree: NarrowTree, size: int, now: Time) -> None:
        """A message of `size` bytes goes along the tree of `source`: a long one leaves no room for
        the children that only a tree of short messages may have."""
        tree.longest = max(tree.longest, size)
        if len(tree.children) > self._most_children(tree):
            self._state.timers.set_earliest((TRIM, source), now + TRIM_AFTER)

    def _most_children(self, tree: NarrowTree) -> int:
        return max(1, tree.most_children(self._state.params.piece_children))

    def _start_over(self, source: SourceId, tree: NarrowTree, now: Time) -> None:
        under_way = self._state.transfers.is_under_way(source)
        if tree.stands or not (under_way or now - tree.used_at <= TREE_IDLE):
            return
        tree.forget_failures(now - _FAILED_FOR)
        tree.retries = 0 if under_way else min(tree.retries + 1, _MOST_DOUBLINGS)
        tree.refused.clear()
        self._ask_next(source, tree, now)

    # Giving and refusing

    def on_graft(
        self, peer: PeerId, source: SourceId, wants: Iterable[PieceWant], now: Time
    ) -> None:
        """`peer` asks for a place in the tree of `source`, and says what it lacks."""
        tree = self._state.trees.get(source)
        is_child = tree is not None and peer in tree.children
        has_room = tree is not None and (is_child or self._has_room(tree))
        if tree is None or peer == tree.parent or not has_room:
            self._refuse(peer, source, tree)
        elif tree.stands:
            self._accept(peer, source, tree, wants, now)
        elif tree.asking not in (None, peer):
            # Asked on the word of our announcement: it has its place when we have ours.
            tree.children.pop(peer, None)
            tree.waiting[peer] = tuple(wants)
        else:
            self._refuse(peer, source, tree)

    def _refuse(self, peer: PeerId, source: SourceId, tree: NarrowTree | None) -> None:
        taken = [] if tree is None else [*tree.children, *tree.waiting]
        named = islice((child for child in taken if child != peer), MAX_NAMED)
        self._state.send(peer, PiecePrune(source, tuple(named)))

    def _accept(
        self,
        peer: PeerId,
        source: SourceId,
        tree: NarrowTree,
        wants: Iterable[PieceWant],
        now: Time,
    ) -> None:
        state = self._state
        tree.children[peer] = None
        tree.used_at = now
        state.send(peer, PieceOffer((TreeOffer(source, tree.rank),), accepted=True))
        missing = dict(wants)
        for transfer in state.transfers.of_source(source):
            id = transfer.preamble.id
            whole_at = now if transfer.whole_at is None else transfer.whole_at
            if id not in missing and now - whole_at >= RECENT:
                continue  # It may be long past; a newcomer is offered it when it says hello.
            if id not in missing:
                state.announce(transfer, peer)
            else:
                transfer.taken[peer] = transfer.everything & ~missing[id]
            state.push(transfer, peer, transfer.everything)

    def on_prune(self, peer: PeerId, message: PiecePrune, now: Time) -> None:
        """`peer` isn't our parent, or isn't our child any more."""
        state, source = self._state, message.source
        tree = state.trees.get(source)
        if tree is None:
            return
        had_room = self._has_room(tree)
        if tree.waiting.pop(peer, None) is not None:
            return
        if tree.children.pop(peer, 0) is None:
            if tree.stands and not had_room:
                self.offer_places(source, tree)
            return
        if peer not in (tree.asking, tree.parent):
            state.drop(peer, DropReason.UNSOLICITED)
            return
        if tree.asking == peer:
            self._ask_no_more(source, tree)
        if tree.parent == peer:
            tree.parent = None
        tree.refused[peer] = None
        for child in message.instead[:MAX_NAMED]:
            if child in state.takers and child not in tree.offers:
                # Its rank isn't known; with children of our own we wait for its own word.
                tree.offers[child] = MAX_RANK
        self._ask_next(source, tree, now)
        self.improve(source, now)

    def leave_parent(self, source: SourceId, tree: NarrowTree, now: Time) -> None:
        """The parent brings nothing: look for another one."""
        if tree.parent is not None:
            self._state.send(tree.parent, PiecePrune(source))
            tree.refused[tree.parent] = None
            tree.former, tree.parent = tree.parent, None
        self.seek(source, tree, now)

    def leave_failed_parent(self, source: SourceId, tree: NarrowTree, now: Time) -> None:
        """The parent brings nothing: for a while it is no candidate any more. Where all but our
        children have failed it was probably not them."""
        tree.forget_failures(now - _FAILED_FOR)
        if tree.parent is not None:
            tree.failed[tree.parent] = now
        if all(peer in tree.failed or peer in tree.children for peer in self._state.givers):
            tree.failed.clear()
        self.leave_parent(source, tree, now)

    def judge_parent(self, transfer: Transfer, now: Time) -> None:
        """`transfer` is whole: a parent from before it that brought nothing of it has failed."""
        source = transfer.preamble.source
        tree = self._state.trees.get(source)
        if tree is None or tree.parent is None:
            return
        if tree.pushed_at >= transfer.announced_at:
            self.improve(source, now)
        else:
            self.leave_failed_parent(source, tree, now)

    def leave(self, peer: PeerId, now: Time) -> None:
        """Have `peer` as a parent in no tree."""
        for source, tree in self._state.trees.items():
            if peer == tree.parent:
                self.leave_parent(source, tree, now)
            elif peer == tree.asking:
                self._ask_no_more(source, tree)
                self._state.send(peer, PiecePrune(source))
                self.seek(source, tree, now)

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """Make do without `peer`."""
        for source, tree in self._state.trees.items():
            was_needed = peer in (tree.parent, tree.asking)
            had_room = self._has_room(tree)
            tree.remove(peer)
            if was_needed:
                if tree.asking is None:
                    self._state.timers.cancel((ANSWER, source))
                self.seek(source, tree, now)
            elif tree.stands and not had_room:
                self.offer_places(source, tree)

    def _has_room(self, tree: NarrowTree) -> bool:
        return self._state.trees.has_room(tree, self._state.params.piece_children)
