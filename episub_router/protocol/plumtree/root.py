"""ROOT: how the tree of a source is built and kept (beyond the specification).

A source sends ROOT with its first message and rarely after that; it floods the overlay's links.
A node GRAFTs the neighbour that brought the first copy, or a much nearer one right after it, and
leaves its former parent a little later. The neighbours that were next become its standbys.
"""

from __future__ import annotations

from collections.abc import Container

from episub_router.protocol.effects import DropReason, Send
from episub_router.protocol.messages import MAX_IDS, Graft, Prune, Root, RootRequest, TreeRoot
from episub_router.protocol.plumtree.parent_selection import KEEP_PARENT
from episub_router.protocol.plumtree.source_tree import (
    ROOT_INTERVAL,
    TREE_IDLE,
    RootOffer,
    SourceTree,
    in_parts,
    take_due,
)
from episub_router.protocol.plumtree.state import PlumtreeState
from episub_router.protocol.types import NEVER, PeerId, SourceId, Time

_SETTLE = 0.5
"""Seconds from the first copy of a ROOT until all are there, over links of up to 250 ms, and until
messages in flight have arrived through the former parent."""

_ROOT_MESSAGES = 3
"""Messages between two ROOTs of a source, at least: beyond that it costs less than it saves."""

_LEAST_INTERVAL = 5.0
"""Seconds between two ROOTs of a source, however many nodes ask. Measured: 6 s in place of 4 take
80 bytes a delivery from five sources on a plane, and add a tenth to p99 at 1 % churn a second."""

_RETRY = 1.0
"""Seconds until a source whose ROOT nobody answered sends another."""
MAX_COST = 60.0
"""Seconds: bound of the cost that a ROOT may name."""

_MUCH_CHEAPER = 0.8
"""A new link replaces the parent where the way over it takes at most this share of the time."""


class RootProcedure:
    """Sends and floods ROOT, and chooses parents and standbys."""

    __slots__ = ("_choosing", "_renewals", "_settling", "_state")

    def __init__(self, state: PlumtreeState) -> None:
        self._state = state
        # Both delays are constant, so that the first entry is always the next one due.
        self._choosing: dict[SourceId, Time] = {}
        """Trees whose parent is to be chosen, and when."""
        self._settling: dict[SourceId, Time] = {}
        """Trees whose standbys are to be chosen and former parents left, and when."""
        self._renewals: dict[SourceId, Time] = {}
        """Own sources that were asked for ROOT, and when to send it."""

    @property
    def deadline(self) -> Time:
        """When `fire` is next due; infinity while nothing is waited for."""
        if not (self._choosing or self._settling or self._renewals):
            return NEVER
        choosing = next(iter(self._choosing.values()), NEVER)
        settling = next(iter(self._settling.values()), NEVER)
        return min(choosing, settling, *self._renewals.values())

    def fire(self, now: Time) -> None:
        """Choose and settle what is due at `now`."""
        for source in take_due(self._choosing, now):
            tree = self._state.trees.get(source)
            if tree is not None and not tree.own:
                self._choose_parent(source, tree, now)
        for source in take_due(self._renewals, now):
            tree = self._state.trees.get(source)
            if tree is not None and tree.carried:
                self._send_root(source, now)
        if settled := take_due(self._settling, now):
            self._settle(settled, now)

    def clear(self) -> None:
        self._choosing.clear()
        self._settling.clear()
        self._renewals.clear()

    # The source's side

    def choose_tree(self, source: SourceId | None, now: Time) -> SourceId | None:
        """The root of the tree that our next message of `source` goes along: `source` itself once
        its tree stands, till then the nearest root; None for the default tree. Sends ROOT first
        where one is due."""
        state = self._state
        trees = state.trees
        if source is None or not trees.most:
            return None
        tree = trees.get(source)
        if tree is None or not tree.own or not trees.is_fresh(tree, now):
            if trees.has_room(now):
                self._send_root(source, now)
        else:
            age = now - tree.root_at
            if trees.stands(tree, now) and tree.children:
                enough = age >= ROOT_INTERVAL and tree.carried >= _ROOT_MESSAGES
                if enough or age >= 0.8 * TREE_IDLE:
                    self._send_root(source, now)
                return source
            if age >= _RETRY:
                self._send_root(source, now)
        return trees.nearest(state.push_peers, now)

    def _send_root(self, source: SourceId, now: Time) -> None:
        state = self._state
        tree = state.trees.use(source)
        if not tree.own:
            tree.own, tree.parent, tree.hops, tree.cost = True, None, 0, 0.0
            if tree.second is not None:
                tree.take_second(None, now)
                self.settle(source, now)
            # Not after what others claim to be our round.
            tree.round = state.epoch
        state.trees.note_root(tree, now)
        tree.round += 1
        root = Root((TreeRoot(source, tree.round, 1, 0.0),))
        state.effects.extend([Send(peer, root) for peer in state.push_peers.in_source_trees])

    # ROOT

    def on_root(self, peer: PeerId, message: Root, now: Time) -> None:
        """ROOT from `peer`: flood what is new, note what is another way to a known root."""
        state = self._state
        if peer not in state.push_peers:
            state.drop(peer, DropReason.NOT_NEIGHBOR)
            return
        if not state.trees.most:
            return
        if state.push_peers.join_source_trees(peer):
            # A peer that doesn't know of source trees passed its JOIN on without its word for it.
            self.on_neighbor_up(peer, now)
        roots = message.roots
        if len(roots) > MAX_IDS:
            state.drop(peer, DropReason.TOO_MANY_IDS)
            roots = roots[:MAX_IDS]
        for request in message.requests[:MAX_IDS]:
            self._on_request(peer, request, now)
        flooded = [entry for root in roots if (entry := self._on_tree_root(peer, root, now))]
        if flooded:
            on = Root(tuple(flooded))
            others = state.push_peers.in_source_trees
            state.effects.extend([Send(other, on) for other in others if other != peer])

    def _on_tree_root(self, peer: PeerId, root: TreeRoot, now: Time) -> TreeRoot | None:
        """Note one line of a ROOT; returns the line to flood if its round is new here."""
        state = self._state
        trees = state.trees
        source = root.source
        tree = trees.get(source)
        if tree is not None and (tree.own or tree.failures.excludes(peer, now)):
            return None
        if state.standings.is_bad(peer, now):
            return None
        hops = state.check_hops(peer, root.hops)
        # NaN compares false, too.
        cost = root.cost if 0 <= root.cost <= MAX_COST else MAX_COST
        offer = RootOffer(now, hops, cost)
        fresh = tree is not None and trees.is_fresh(tree, now)
        # A round that is over stays over; only a source that lost its count starts again.
        if tree is not None and (root.round == tree.round or (fresh and root.round < tree.round)):
            if fresh and root.round == tree.round and peer not in tree.offers:
                tree.offers[peer] = offer
                self._consider_new_link(source, tree, peer, offer, now)
            return None
        tree = trees.use(source)
        trees.note_root(tree, now)
        tree.renewed = fresh and tree.proven
        tree.round = root.round
        tree.offers = {peer: offer}
        self._take_offer(tree, peer, offer)
        self._choosing.setdefault(source, now + max(KEEP_PARENT, state.params.near_parent_window))
        return TreeRoot(source, root.round, state.next_hops(hops), tree.cost)

    def _take_offer(self, tree: SourceTree, peer: PeerId, offer: RootOffer) -> None:
        tree.hops, tree.cost = offer.hops, offer.cost + self._state.link_delay(peer)

    def _consider_new_link(
        self, source: SourceId, tree: SourceTree, peer: PeerId, offer: RootOffer, now: Time
    ) -> None:
        """A link that is newer than the last ROOT may be part of a much faster way."""
        up_since = self._state.push_peers.up_since(peer)
        if up_since <= tree.root_at or peer in tree.children:
            return
        if offer.cost + self._state.link_delay(peer) <= _MUCH_CHEAPER * tree.cost:
            self._take_offer(tree, peer, offer)
            self.set_parent(source, tree, peer, now)

    # Parents

    def _choose_parent(self, source: SourceId, tree: SourceTree, now: Time) -> None:
        state = self._state
        offers = {peer: offer for peer, offer in tree.offers.items() if peer in state.push_peers}
        self.settle(source, now)
        if not offers:
            return
        parent = state.parent_selection.best_offer(offers, tree.parent, tree.hops)
        if parent == tree.parent:
            # Said again with each ROOT: the last GRAFT may be lost, or forgotten with the tree.
            state.effects.append(Send(parent, Graft(sources=(source,))))
        self.set_parent(source, tree, parent, now)
        tree.safe = tree.is_feasible(parent)

    def set_parent(
        self, source: SourceId, tree: SourceTree, peer: PeerId, now: Time, *, graft: bool = True
    ) -> None:
        """Have `peer` push to us in this tree; the former parent is left a little later (make
        before break). Without `graft`, `peer` pushes already."""
        former = tree.parent
        if former == peer:
            return
        helped = tree.is_helper(peer)
        tree.take_parent(peer)
        if graft:
            self._state.effects.append(Send(peer, Graft(sources=(source,))))
        if former is not None and former in self._state.push_peers:
            tree.leaving[former] = now + _SETTLE
        if former is not None or helped:
            self.settle(source, now)

    # Second parents and standbys

    def settle(self, source: SourceId, now: Time) -> None:
        """Choose second parent and standbys, and leave former parents, a little later."""
        self._settling.setdefault(source, now + _SETTLE)

    def _settle(self, sources: list[SourceId], now: Time) -> None:
        grafts: dict[PeerId, list[SourceId]] = {}
        prunes: dict[PeerId, list[SourceId]] = {}
        leave: dict[PeerId, list[SourceId]] = {}
        pushers: dict[PeerId, list[SourceId]] = {}
        state = self._state
        for source in sources:
            tree = state.trees.get(source)
            if tree is None:
                continue
            if state.params.parents > 1 and not tree.own and state.trees.is_fresh(tree, now):
                second = tree.choose_second(state.push_peers, now)
                if second is not None:
                    pushers.setdefault(second, []).append(source)
            for peer in take_due(tree.leaving, now):
                if not tree.is_parent(peer) and peer in state.push_peers:
                    leave.setdefault(peer, []).append(source)
            if tree.leaving:
                self._settling[source] = now + _SETTLE
            if tree.own:
                continue
            added, removed = tree.choose_standbys(state.push_peers, state.params.standbys)
            for peer in added:
                grafts.setdefault(peer, []).append(source)
            for peer in removed:
                prunes.setdefault(peer, []).append(source)
            for peer in tree.standbys:
                state.graft_wait.add_standby(peer)
        self._graft_parents(pushers)
        for peer, asked in grafts.items():
            for part in in_parts(asked):
                state.effects.append(Send(peer, Graft(standby=part)))
        for peer, left in leave.items():
            for part in in_parts(left):
                state.effects.append(Send(peer, Prune(sources=part)))
        standbys = {standby for _, tree in state.trees.items() for standby in tree.standbys}
        for peer, unasked in prunes.items():
            for part in in_parts(unasked):
                state.effects.append(Send(peer, Prune(standby=part)))
            if peer not in standbys:
                state.graft_wait.remove_standby(peer)

    def replace_silent_standbys(
        self, source: SourceId, tree: SourceTree, announcers: Container[PeerId], now: Time
    ) -> None:
        """A message of `source` came, which `announcers` had announced: those that never do go."""
        for peer in tree.failures.silent(tree.standbys, announcers, now):
            tree.note_failure(peer, now)
            self.settle(source, now)

    # Neighbours

    def on_neighbor_up(self, peer: PeerId, now: Time) -> None:
        """Offer a new neighbour the trees that stand here."""
        state = self._state
        state.push_peers.note_up(peer, now)
        roots = [
            TreeRoot(source, tree.round, state.next_hops(tree.hops), tree.cost)
            for source, tree in state.trees.items()
            if state.trees.is_fresh(tree, now)
            # One that carries nothing may be a dead source's: newcomers would keep it going. A new
            # round comes from a live one, and may be newer than its last message.
            and (tree.own or (tree.parent is not None and (tree.carried or tree.renewed)))
        ]
        if roots and peer in state.push_peers.in_source_trees:
            state.effects.append(Send(peer, Root(tuple(roots[-MAX_IDS:]))))

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """A neighbour is gone: GRAFT the next one in the trees in which it was our parent."""
        state = self._state
        state.trees.misses.pop(peer, None)
        lost: dict[PeerId, list[SourceId]] = {}
        for source, tree in state.trees.items():
            helped = tree.is_helper(peer)
            tree.forget(peer)
            if helped:
                self.settle(source, now)
            if tree.parent == peer and state.trees.is_fresh(tree, now):
                self._replace_parent(source, tree, lost, now)
            elif tree.parent == peer:
                tree.parent = None
        self._graft_parents(lost)

    def _graft_parents(self, parents: dict[PeerId, list[SourceId]]) -> None:
        for parent, sources in parents.items():
            for part in in_parts(sources):
                self._state.effects.append(Send(parent, Graft(sources=part)))

    def _replace_parent(
        self, source: SourceId, tree: SourceTree, lost: dict[PeerId, list[SourceId]], now: Time
    ) -> None:
        tree.parent = None
        parent = tree.next_parent(self._state.push_peers)
        if parent is not None:
            self.set_parent(source, tree, parent, now, graft=False)
            self.settle(source, now)
            lost.setdefault(parent, []).append(source)
        if parent is None or not tree.safe:
            self.request_root(source, tree)

    def leave_parent(self, parent: PeerId, now: Time, but: SourceTree) -> None:
        """`parent` pushes nothing any more: take others in all trees `but` one."""
        grafts: dict[PeerId, list[SourceId]] = {}
        for source, tree in self._state.trees.children_of(parent):
            if tree is not but and self._state.trees.is_fresh(tree, now):
                tree.note_failure(parent, now)
                tree.leaving[parent] = now + _SETTLE
                self._replace_parent(source, tree, grafts, now)
        self._graft_parents(grafts)

    def request_root(self, source: SourceId, tree: SourceTree) -> None:
        """There is no way to the source that is known to be good: ask it for another ROOT."""
        neighbors = filter(tree.may_lead, self._state.push_peers.in_source_trees)
        to = tree.parent if tree.parent is not None else next(neighbors, None)
        if to is not None:
            tree.requested = tree.round
            request = Root(requests=(RootRequest(source, tree.round),))
            self._state.effects.append(Send(to, request))

    def _on_request(self, peer: PeerId, request: RootRequest, now: Time) -> None:
        """Pass a request on towards the source, once a round; the source answers with ROOT."""
        tree = self._state.trees.get(request.source)
        if tree is None or request.round < tree.round:
            return  # A newer round is on its way.
        if tree.own:
            self._renewals.setdefault(request.source, max(now, tree.root_at + _LEAST_INTERVAL))
        elif tree.requested < tree.round and tree.parent != peer:
            self.request_root(request.source, tree)

    # GRAFT and PRUNE of single sources

    def on_graft(self, peer: PeerId, message: Graft, now: Time) -> None:
        """GRAFT with `sources` or `standby`: push to `peer`, or announce to it at once."""
        state = self._state
        if message.sources or message.standby:
            state.push_peers.join_source_trees(peer)
        for source, tree in state.trees.named(message.sources):
            tree.children[peer] = None
            tree.announce_to.pop(peer, None)
            if peer in tree.standbys and state.params.parents > 1:
                # It gets messages from us, and has none to announce.
                self.settle(source, now)
            if tree.parent == peer:
                # It lost its parent and turns to us, its child: find another way.
                lost: dict[PeerId, list[SourceId]] = {}
                self._replace_parent(source, tree, lost, now)
                self._graft_parents(lost)
        for _, tree in state.trees.named(message.standby):
            tree.announce_to[peer] = None

    def on_prune(self, peer: PeerId, message: Prune, now: Time) -> None:
        """PRUNE with `sources` or `standby`: neither push nor announce at once any more."""
        state = self._state
        for source, tree in state.trees.named(message.sources):
            tree.children.pop(peer, None)
            if tree.second is None and state.params.parents > 1:
                self.settle(source, now)
        for _, tree in state.trees.named(message.standby):
            tree.announce_to.pop(peer, None)
