"""Parents and standbys: which neighbours bring a tree's messages, and what replaces one (E40).

A new parent takes its place at once; the former one is left a little later (make before break).
"""

from __future__ import annotations

from collections.abc import Container

from episub_router.protocol.messages import Graft, Prune, Root, RootRequest
from episub_router.protocol.params import EagerRepair
from episub_router.protocol.plumtree.graft_wait import FIRST_LAG
from episub_router.protocol.plumtree.message_cache import GossipMessage
from episub_router.protocol.plumtree.state import PlumtreeState, TreeTask, batched
from episub_router.protocol.plumtree.tree import FAILED_AFTER, Tree
from episub_router.protocol.types import PeerId, SourceId, Time

STANDBYS = 2
"""Neighbours that announce at once. Measured: 10 % of 1,000 nodes crash: p99 of the next second is
0.98x of gossipsub's with two, 1.3x with one, for 0.7 frames a delivery."""
SETTLE = 0.5  # Seconds until all copies of a ROOT, and messages in flight, are there. Chosen
_ADOPT_AFTER = 2  # Messages in a row that another neighbour had to bring to become the parent


class Parents:
    """Chooses and replaces the neighbours that push to us, and those that announce at once."""

    __slots__ = ("_grafts", "_state")

    def __init__(self, state: PlumtreeState) -> None:
        self._state = state
        self._grafts: dict[PeerId, list[SourceId]] = {}  # New parents that were not told yet

    def schedule_rebalance(self, tree: Tree, now: Time) -> None:
        """Choose further parents and standbys, and leave former parents, a little later."""
        self._state.timers.set_earliest((TreeTask.REBALANCE, tree.source), now + SETTLE)

    def on_source_message(
        self, tree: Tree, message: GossipMessage, others: Container[PeerId], now: Time
    ) -> None:
        """A message has come down `tree` from its source; `others` sent it, too."""
        if tree.own:
            return
        peer, holders = message.sender, message.holders or {}
        asked = message.asked_at(peer) is not None
        parent = tree.parent
        failed = asked and peer not in tree.parents and self._pushes_nothing(tree, now)
        if not asked and peer in self._state.links:
            self._state.links[peer].missed = 0
        for each in [*tree.parents, *tree.standbys]:
            if each in others or (each == peer and not asked):
                tree.note_pushed(each)
            elif each in holders and each not in tree.parents:
                tree.note_announced(each)
            elif each != peer and tree.note_missed(each, now):
                self.schedule_rebalance(tree, now)
                failed = failed or each == parent
        if peer is None or peer not in self._state.links:
            return
        if peer in tree.parents:
            if asked:
                self._state.graft(peer, tree.source)  # The last one was lost.
        elif asked:
            self._on_pulled(tree, peer, failed, now)
        elif peer not in tree.leaving:
            # It pushes to us as its child, and is faster than the parent that we know.
            if parent is None or tree.is_feasible(peer):
                self.set_parent(tree, peer, now, graft=False)
            else:
                self._state.prune(peer, tree.source)
        if failed and tree.parent == parent:
            self._leave(tree, now)
            self._send_grafts()

    def _on_pulled(self, tree: Tree, peer: PeerId, failed: bool, now: Time) -> None:
        """`peer` had to be asked for a message; whether the parent has `failed` by that."""
        parent, missed = tree.parent, tree.service(tree.parent).unpushed.count
        if parent is None or failed or not tree.is_feasible(parent):
            # Each cycle of parents has such a link: look for another way at once.
            adopt = peer not in tree.children
        else:
            adopt = missed >= _ADOPT_AFTER and tree.is_feasible(peer)
        if adopt:
            self.set_parent(tree, peer, now)
            if not tree.is_feasible(peer):
                self.request_root(tree)
        elif parent is not None and missed and missed % _ADOPT_AFTER == 0:
            self._state.graft(parent, tree.source)
            self.request_root(tree)

    def set_parent(self, tree: Tree, peer: PeerId, now: Time, *, graft: bool = True) -> None:
        """Have `peer` push to us; without `graft` it does already."""
        former = tree.parent
        if former == peer:
            return
        graft = graft and peer not in tree.parents
        tree.take_parent(peer)
        if graft:
            self._state.graft(peer, tree.source)
        if former is not None:
            tree.leaving[former] = now + SETTLE
        if former is not None or peer in tree.standbys:
            self.schedule_rebalance(tree, now)

    def _find_parent(self, tree: Tree, now: Time) -> None:
        """The parent is lost: take the next one, unless announcements are to show it (E40)."""
        state = self._state
        if state.params.repair is EagerRepair.LAZY:
            return
        parent = tree.next_parent(state.links)
        if tree.source is None:
            if parent is not None:
                tree.link(parent)
                state.graft(parent, None)
            return
        if parent is not None:
            if parent not in tree.parents:
                self._grafts.setdefault(parent, []).append(tree.source)
            tree.take_parent(parent)
            self.schedule_rebalance(tree, now)
        if not tree.is_feasible(parent):
            self.request_root(tree)

    def _leave(self, tree: Tree, now: Time) -> None:
        tree.leaving[tree.parents.pop(0)] = now + SETTLE
        self._find_parent(tree, now)

    def _pushes_nothing(self, tree: Tree, now: Time) -> bool:
        """The parent in `tree` didn't push a message: whether it has failed in all trees."""
        link = self._state.links.get(tree.parent)
        if link is None:
            return False
        link.missed += 1
        if link.missed < FAILED_AFTER:
            return False
        for each in self._state.trees.by_source.values():
            if each.parent == link.peer:
                each.exclude(link.peer, now)
                if each is not tree:
                    self._leave(each, now)
        self._send_grafts()
        return True

    def _send_grafts(self) -> None:
        for parent, sources in self._grafts.items():
            for part in batched(sources):
                self._state.send(parent, Graft(sources=part))
        self._grafts.clear()

    def request_root(self, tree: Tree) -> None:
        """No way to the source is known to be good: ask it for another ROOT."""
        to = tree.parent
        if to is None:
            left = (peer for peer in self._state.links if peer not in tree.children)
            to = next((peer for peer in left if not tree.service(peer).failures), None)
        if to is not None:
            tree.requested = tree.round
            self._state.send(to, Root(requests=(RootRequest(tree.source, tree.round),)))

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """A link ended (E40). In the shared tree, who got messages over it repairs."""
        trees = self._state.trees
        shared = trees.shared
        brought = shared.parent is None or peer in shared.parents
        cut_off = brought and peer in shared.children
        shared.forget(peer)
        if cut_off:
            self._find_parent(shared, now)
        for tree in trees.by_source.values():
            was_parent = tree.parent == peer
            helped = peer in tree.parents or peer in tree.standbys
            tree.forget(peer)
            if helped:
                self.schedule_rebalance(tree, now)
            if was_parent and tree.is_fresh(now):
                self._find_parent(tree, now)
        self._send_grafts()

    def on_graft(self, peer: PeerId, message: Graft, now: Time) -> None:
        """GRAFT for trees of sources: push to `peer`, or announce to it at once (E36)."""
        state = self._state
        for tree in state.trees.named(message.sources):
            tree.children[peer] = None
            tree.announce_to.pop(peer, None)
            if tree.parent == peer:
                # It lost its parent and turns to us, its child: find another way.
                tree.parents.remove(peer)
                self._find_parent(tree, now)
        self._send_grafts()
        for tree in state.trees.named(message.standby):
            tree.announce_to[peer] = None

    def on_prune(self, peer: PeerId, message: Prune, now: Time) -> None:
        """PRUNE for trees of sources: neither push nor announce at once any more (E31)."""
        trees = self._state.trees
        for tree in trees.named(message.sources):
            tree.children.pop(peer, None)
            if len(tree.parents) < self._state.params.parents and not tree.own:
                self.schedule_rebalance(tree, now)
        for tree in trees.named(message.standby):
            tree.announce_to.pop(peer, None)

    def rebalance(self, sources: list[SourceId], now: Time) -> None:
        """Choose helpers and leave former parents in the trees of `sources`."""
        state, links = self._state, self._state.links
        orders: dict[PeerId, list[list[SourceId]]] = {}
        for source in sources:
            tree = state.trees.by_source.get(source)
            if tree is None:
                continue
            more, standbys = tree.choose(links, state.params.parents, STANDBYS)
            tree.leaving |= dict.fromkeys((p for p in tree.parents[1:] if p not in more), now)
            tree.parents = [*tree.parents[:1], *more]
            left = [p for p in tree.standbys if p not in standbys and p not in tree.parents]
            added = [p for p in standbys if p not in tree.standbys]
            tree.standbys = standbys
            gone = [p for p, at in tree.leaving.items() if at <= now and p not in tree.parents]
            tree.leaving = {p: at for p, at in tree.leaving.items() if at > now}
            if tree.leaving:
                self.schedule_rebalance(tree, now)
            for order, peers in enumerate((more, added, gone, left)):
                for peer in peers:
                    if peer in links:
                        orders.setdefault(peer, [[], [], [], []])[order].append(source)
        for peer, (push, announce, leave, forget) in orders.items():
            for part in batched(push):
                state.send(peer, Graft(sources=part))
            for part in batched(announce):
                state.send(peer, Graft(standby=part))
            for part in batched(leave):
                state.send(peer, Prune(sources=part))
            for part in batched(forget):
                state.send(peer, Prune(standby=part))
            link = links[peer]
            is_standby = any(peer in tree.standbys for tree in state.trees)
            link.lag = None if not is_standby else FIRST_LAG if link.lag is None else link.lag
