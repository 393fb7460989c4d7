"""ROOT: how the tree of a source is built and kept (beyond the specification).

A source floods ROOT with its first message and rarely after that. A node GRAFTs the neighbour that
brought it first, or a much nearer one right after; the next ones become standbys.
"""

from __future__ import annotations

from episub_router.protocol.effects import Send
from episub_router.protocol.messages import MAX_IDS, Root, RootRequest, TreeRoot
from episub_router.protocol.plumtree.message_cache import next_hops
from episub_router.protocol.plumtree.parents import Parents
from episub_router.protocol.plumtree.state import PlumtreeState, TreeTask
from episub_router.protocol.plumtree.tree import TREE_IDLE, Offer, Tree
from episub_router.protocol.types import PeerId, SourceId, Time

ROOT_INTERVAL = 20.0  # Seconds between ROOTs nobody asked for. Measured: trees under churn ask
MAX_COST = 60.0  # Seconds: bound of the cost that a ROOT may name
_ROOT_MESSAGES = 3  # Messages between two ROOTs, at least: with more it costs less than it saves
_REQUEST_INTERVAL = 5.0
"""Seconds between two ROOTs of a source, however many nodes ask. Measured: 6 s in place of 4 take
80 bytes a delivery from five sources on a plane, and add a tenth to p99 at 1 % churn a second."""
_RETRY = 1.0  # Seconds until a source whose ROOT nobody answered sends another
_CHOOSE_AFTER = 0.01  # Seconds after the first copy of a ROOT until the parent is chosen
NEAR_WINDOW = 0.005
"""Seconds by which a much nearer parent may bring ROOT later. Measured: three sites: 3.5 copies
between them in place of 12.5; 1,000 nodes on a plane: 0.2 ms more latency."""
_NEARER_BY = 4.0  # Least ratio of the RTTs. Chosen: a link to another site takes longer
_MUCH_CHEAPER = 0.8  # Share of the parent's time that a new link may take to replace it


class RootProcedure:
    __slots__ = ("_epoch", "_parents", "_state")

    def __init__(self, state: PlumtreeState, parents: Parents, epoch: int) -> None:
        self._state = state
        self._parents = parents
        self._epoch = epoch  # Where our rounds start: above those that others remember

    def fire(self, now: Time) -> None:
        rebalanced = []
        for task, source in self._state.timers.pop_due(now):
            tree = self._state.trees.by_source.get(source)
            if task is TreeTask.REBALANCE:
                rebalanced.append(source)
            elif tree is not None and task is TreeTask.CHOOSE_PARENT and not tree.own:
                self._choose_parent(tree, now)
            elif tree is not None and task is TreeTask.SEND_ROOT and tree.carried:
                self._send_root(source, now)
        if rebalanced:
            self._parents.rebalance(rebalanced, now)

    def choose_tree(self, source: SourceId | None, now: Time) -> SourceId | None:
        """The tree of our next message of `source`: its own once that stands, till then that of the
        nearest source, or None, the shared one. Sends ROOT first where one is due."""
        if source is None:
            return None
        trees = self._state.trees
        tree = trees.get(source)
        if tree is None or not tree.own or not tree.is_fresh(now):
            if trees.count_proven(now) < self._state.params.source_trees:
                self._send_root(source, now)
        else:
            age = now - tree.root_at
            if tree.stands(now) and tree.children:
                enough = age >= ROOT_INTERVAL and tree.carried >= _ROOT_MESSAGES
                if enough or age >= 0.8 * TREE_IDLE:
                    self._send_root(source, now)
                return source
            if age >= _RETRY:
                self._send_root(source, now)
        nearest = trees.nearest(self._state.links, now)
        return None if nearest is None else nearest.source

    def _send_root(self, source: SourceId, now: Time) -> None:
        tree = self._state.trees.use(source)
        if not tree.own:
            # We are no child, and don't begin after what others claim to be our round.
            tree.own, tree.round, tree.hops, tree.cost = True, self._epoch, 0, 0.0
            tree.leaving |= dict.fromkeys(tree.parents, now)
            tree.parents, tree.offers = [], {}
            if tree.leaving or tree.standbys:
                self._parents.schedule_rebalance(tree, now)
        tree.note_root(now)
        tree.round += 1
        self._flood([TreeRoot(source, tree.round, 1, 0.0)])

    def _flood(self, roots: list[TreeRoot], sender: PeerId | None = None) -> None:
        root = Root(tuple(roots))
        self._state.effects.extend([Send(p, root) for p in self._state.links if p != sender])

    def on_root(self, peer: PeerId, message: Root, now: Time) -> None:
        """ROOT from `peer`: flood what is new, note what is another way to a known root."""
        roots = self._state.capped(peer, message.roots)
        for request in message.requests[:MAX_IDS]:
            self._on_request(peer, request, now)
        flooded = [e for root in roots if (e := self._note(peer, root, now))]
        if flooded:
            self._flood(flooded, peer)

    def _note(self, peer: PeerId, root: TreeRoot, now: Time) -> TreeRoot | None:
        """Note one line of a ROOT; returns the line to flood if its round is new here."""
        state, source = self._state, root.source
        tree = state.trees.by_source.get(source)
        if tree is not None and (tree.own or now < tree.service(peer).excluded_until):
            return None
        if state.standings.is_bad(peer, now):
            return None
        hops = state.check_hops(peer, root.hops)
        cost = root.cost if 0 <= root.cost <= MAX_COST else MAX_COST  # NaN compares false, too.
        offer, fresh = Offer(now, hops, cost), tree is not None and tree.is_fresh(now)
        if tree is not None and root.round == tree.round:
            if fresh and peer not in tree.offers:
                tree.offers[peer] = offer
                self._consider_new_link(tree, peer, offer, now)
            return None
        if tree is not None and fresh and root.round < tree.round:
            return None  # It is over; only a source that lost its count starts again.
        tree = state.trees.use(source)
        tree.note_root(now)
        tree.round = root.round
        tree.offers = {peer: offer}
        self._take_offer(tree, peer, offer)
        state.timers.set_earliest((TreeTask.CHOOSE_PARENT, source), now + _CHOOSE_AFTER)
        return TreeRoot(source, root.round, next_hops(hops), tree.cost)

    def _take_offer(self, tree: Tree, peer: PeerId, offer: Offer) -> None:
        tree.hops, tree.cost = offer.hops, offer.cost + self._state.link_delay(peer)

    def _consider_new_link(self, tree: Tree, peer: PeerId, offer: Offer, now: Time) -> None:
        """A link that is newer than the last ROOT may be part of a much faster way."""
        if self._state.links[peer].up_at <= tree.root_at or peer in tree.children:
            return
        if offer.cost + self._state.link_delay(peer) <= _MUCH_CHEAPER * tree.cost:
            self._take_offer(tree, peer, offer)
            self._parents.set_parent(tree, peer, now)

    def _choose_parent(self, tree: Tree, now: Time) -> None:
        """Take who brought ROOT first, or one much nearer; a parent that was hardly later stays."""
        state = self._state
        self._parents.schedule_rebalance(tree, now)
        offers = [(p, offer) for p, offer in tree.offers.items() if p in state.links]
        if not offers:
            return
        best, first = offers[0]
        for peer, offer in offers:
            soon = offer.arrived_at - first.arrived_at <= NEAR_WINDOW
            if soon and tree.is_feasible(peer) and self._is_much_nearer(peer, best):
                best = peer
        parent = tree.parent
        if parent is not None and tree.is_feasible(parent):
            behind = tree.offers[parent].hops > tree.hops
            best = best if behind or self._is_much_nearer(best, parent) else parent
        if best == parent:
            # Said again with each ROOT: the last GRAFT may be lost, or forgotten with the tree.
            state.graft(best, tree.source)
        self._parents.set_parent(tree, best, now)

    def _is_much_nearer(self, peer: PeerId, than: PeerId) -> bool:
        near, far = self._state.rtt_of(peer), self._state.rtt_of(than)
        return near is not None and far is not None and near * _NEARER_BY <= far

    def _on_request(self, peer: PeerId, request: RootRequest, now: Time) -> None:
        """Pass a request on towards the source, once a round; the source answers with ROOT."""
        tree = self._state.trees.by_source.get(request.source)
        if tree is None or request.round < tree.round:
            return  # A newer round is on its way.
        if tree.own:
            at = max(now, tree.root_at + _REQUEST_INTERVAL)
            self._state.timers.set_earliest((TreeTask.SEND_ROOT, request.source), at)
        elif tree.requested < tree.round and tree.parent != peer:
            self._parents.request_root(tree)

    def on_neighbor_up(self, peer: PeerId, now: Time) -> None:
        """Offer a new neighbour the trees that carry messages: others may be of dead sources."""
        roots = [
            TreeRoot(tree.source, tree.round, next_hops(tree.hops), tree.cost)
            for tree in self._state.trees.by_source.values()
            if tree.is_fresh(now) and (tree.own or (tree.parent is not None and tree.proven))
        ]
        if roots:
            self._state.send(peer, Root(tuple(roots[-MAX_IDS:])))

    def clear(self) -> None:
        """We left the topic; rounds go on if we come back."""
        own = [tree.round for tree in self._state.trees if tree.own]
        self._epoch = max([self._epoch, *own])
