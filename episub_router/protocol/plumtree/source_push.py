"""Eager push along the trees of single sources (E30-E32 for these trees).

A message that its own source pushes down its tree goes to children only, and its first copy
says which neighbour is the parent. A message of another source goes up and down the nearest
root's tree.
"""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol.effects import Send
from episub_router.protocol.messages import Gossip, Graft, IHave, MessageSummary, Prune
from episub_router.protocol.plumtree.message_store import CachedMessage
from episub_router.protocol.plumtree.missing_messages import MissingMessage
from episub_router.protocol.plumtree.root import RootProcedure
from episub_router.protocol.plumtree.source_tree import SourceTree
from episub_router.protocol.plumtree.state import PlumtreeState
from episub_router.protocol.standing.failures import FAILED_AFTER
from episub_router.protocol.types import PeerId, SourceId, Time

_FLOOD_PUBLISH_HOPS = 2
"""gossipsub v1.1's flood publishing, one link further: a message without a tree of its own enters
the nearest root's tree at some 50 places. Measured, 1,000 nodes, 50 sources at the same moment."""

_ADOPT_AFTER = 2
"""Messages in a row that another neighbour had to bring until that one becomes the parent."""


class SourcePush:
    """Says where a message goes along its tree, and what its copies mean for the tree."""

    __slots__ = ("_root", "_state")

    def __init__(self, state: PlumtreeState, root: RootProcedure) -> None:
        self._state = state
        self._root = root

    def on_first_copy(
        self, peer: PeerId | None, message: Gossip, missing: MissingMessage | None, now: Time
    ) -> Iterable[PeerId]:
        """The first copy came from `peer`, None if the message is our own: draw the conclusions
        for its tree, and return the neighbours to push it to, `peer` perhaps among them."""
        state = self._state
        down = message.source == message.along
        # What others say of a message makes no tree; its own source does.
        tree = state.trees.use(message.along) if down else state.trees.get(message.along)
        if tree is None:
            return state.push_peers.in_source_trees if message.hops < _FLOOD_PUBLISH_HOPS else ()
        tree.carried += 1
        if down:
            tree.proven = tree.round >= 0
            if peer in state.push_peers.in_source_trees:
                assert peer is not None
                self._note_parent(tree, message, peer, missing, now)
            announcers = [] if missing is None else [other for other, _ in missing.announcers]
            self._root.replace_silent_standbys(message.source, tree, [peer, *announcers], now)
            if tree.second is not None:
                self._replace_silent_parents(message.source, tree, peer, now)
            return [*tree.children]
        if message.hops < _FLOOD_PUBLISH_HOPS:
            return state.push_peers.in_source_trees
        parents = (parent for parent in (tree.parent, tree.second) if parent is not None)
        return [*tree.children, *parents]

    def _note_parent(
        self, tree: SourceTree, message: Gossip, peer: PeerId, missing: MissingMessage | None,
        now: Time,
    ) -> None:  # fmt: skip
        if tree.own:
            return
        source = message.source
        asked = missing is not None and peer in missing.asked
        if not asked:
            self._state.trees.misses.pop(peer, None)
            tree.failures.note_push(peer)
        if peer == tree.parent:
            tree.misses = 0
            if asked:
                # It doesn't know that we are its child: our GRAFT was lost.
                self._state.effects.append(Send(peer, Graft(sources=(source,))))
        elif asked:
            tree.misses += 1
            former = tree.parent
            failed = former is not None and tree.failures.count_miss(former)
            if former is not None and self._count_miss(former) >= FAILED_AFTER:
                self._root.leave_parent(former, now, but=tree)
                failed = True
            if former is not None and failed:
                tree.note_failure(former, now)
            if former is None or failed or not tree.safe:
                # Each circle of parents has such a link: look for another way at once.
                adopt = peer not in tree.children
            else:
                adopt = tree.misses >= _ADOPT_AFTER and tree.is_feasible(peer)
            if adopt:
                self._root.set_parent(source, tree, peer, now)
                if not tree.safe:
                    self._root.request_root(source, tree)
            elif tree.misses >= _ADOPT_AFTER and former is not None:
                tree.misses = 0
                self._state.effects.append(Send(former, Graft(sources=(source,))))
                self._root.request_root(source, tree)
            if not adopt and tree.second is not None:
                self._note_missing_second(source, tree, peer, now)
        elif peer not in tree.leaving and (peer != tree.second or tree.parent is None):
            # It pushes to us as its child, and is faster than the parent that we know.
            if tree.parent is None or tree.is_feasible(peer):
                self._root.set_parent(source, tree, peer, now, graft=False)
            else:
                self._state.effects.append(Send(peer, Prune(sources=(source,))))

    def _replace_silent_parents(
        self, source: SourceId, tree: SourceTree, pusher: PeerId | None, now: Time
    ) -> None:
        """A message came first from `pusher`, in a tree with two parents: one that never pushes
        goes."""
        for peer in tree.silent_parents(pusher, now):
            if self._count_miss(peer) < FAILED_AFTER:
                continue
            tree.note_failure(peer, now)
            self._state.trees.misses.pop(peer, None)
            if peer == tree.parent:
                self._promote(source, tree, now)
            else:
                tree.take_second(None, now)
            self._root.settle(source, now)

    def _promote(self, source: SourceId, tree: SourceTree, now: Time) -> None:
        """The parent of two has failed: the second takes its place, or one that is feasible."""
        parent = tree.next_parent(self._state.push_peers)
        if parent is None:
            parent = tree.second
        assert parent is not None
        self._root.set_parent(source, tree, parent, now, graft=parent != tree.second)
        if not tree.safe:
            self._root.request_root(source, tree)

    def _note_missing_second(
        self, source: SourceId, tree: SourceTree, peer: PeerId, now: Time
    ) -> None:
        """Neither parent pushed a message, and `peer` had it: it is the second parent after the
        second time in a row."""
        assert tree.second is not None
        misses = self._count_miss(tree.second)
        if peer != tree.second:
            fit = peer in tree.offers and peer not in tree.children
            if misses < _ADOPT_AFTER or not fit or self._state.standings.is_bad(peer, now):
                return
            tree.take_second(peer, now)
            self._root.settle(source, now)
        self._state.effects.append(Send(peer, Graft(sources=(source,))))

    def _count_miss(self, parent: PeerId) -> int:
        """`parent` did not push a message: how many in a row it did not, in all trees."""
        misses = self._state.trees.misses
        misses[parent] = misses.get(parent, 0) + 1
        return misses[parent]

    def announce_at_once(
        self, peer: PeerId | None, message: Gossip, missing: MissingMessage | None,
        holders: list[PeerId],
    ) -> None:  # fmt: skip
        """Announce `message` to neighbours that have us as their standby, and, if we had to ask
        for it, to our parent, which is without it or would push it. Adds them to `holders`."""
        state = self._state
        tree = state.trees.get(message.along)
        if tree is None:
            return
        # Up a tree, a standby may well get it long before the parent: that says nothing.
        down = message.source == message.along
        to = [other for other in tree.announce_to if other not in holders] if down else []
        if missing is not None and missing.asked:
            parent = tree.parent
            if parent not in (None, peer) and parent not in to and parent not in holders:
                to.append(parent)
        if to:
            hops = state.next_hops(message.hops)
            announcement = IHave((MessageSummary(message.id, hops),))
            state.effects.extend([Send(other, announcement) for other in to])
            holders += to

    def on_duplicate(self, peer: PeerId, first: CachedMessage) -> None:
        """Another copy of `first`: PRUNE a neighbour that pushes beside the parent (E31)."""
        source = first.along
        tree = self._state.trees.get(source)
        self._state.trees.misses.pop(peer, None)
        if first.source != source or tree is None:
            return  # Not from the root down: it says nothing about the tree.
        asked = first.missing is not None and peer in first.missing.asked
        if not asked:
            tree.note_push(peer)
        if peer == tree.parent:
            # The parent is slow, not gone; a former parent that was faster is still left.
            tree.misses = 0
        if asked or tree.is_parent(peer):
            return
        if tree.leaving.pop(peer, None) is None:
            # Two that push to each other; a former parent may have turned to us by now.
            tree.children.pop(peer, None)
        self._state.effects.append(Send(peer, Prune(sources=(source,))))
