"""Per-source trees: how ROOT builds them, and what replaces a parent (E40; ROOT is beyond the
specification).

A source floods ROOT with its first message and rarely after that. A node GRAFTs the neighbour that
brought it first, or a much nearer one right after; the next ones become standbys. A new parent
takes its place at once; the former one is left a little later (make before break).
"""

from __future__ import annotations

from collections.abc import Container

from episub_router.protocol.effects import Send
from episub_router.protocol.events import Publish
from episub_router.protocol.messages import Graft, Prune, Root, RootRequest, TreeRoot
from episub_router.protocol.params import EagerRepair
from episub_router.protocol.plumtree.message_cache import GossipMessage
from episub_router.protocol.plumtree.round_proofs import ROUNDS, is_later, own_proof
from episub_router.protocol.plumtree.state import PlumtreeState, TreeTask
from episub_router.protocol.plumtree.tree import ADOPT_AFTER, TREE_IDLE, Offer, Role, Tree
from episub_router.protocol.types import PeerId, SourceId, Time

ROOT_INTERVAL = 20.0  # Seconds between ROOTs nobody asked for. Measured: trees under churn ask
MAX_COST = 60.0  # Seconds: bound of the cost that a ROOT may name
_ROOT_MESSAGES = 3  # Messages between two ROOTs, at least: with more it costs less than it saves
_REQUEST_INTERVAL = 5.0
"""Seconds between two ROOTs of a source, however many nodes ask. Measured: 6 s in place of 4 take
80 bytes a delivery from five sources on a plane, and add a tenth to p99 at 1 % churn a second."""
_RETRY = 1.0  # Seconds until a source whose ROOT nobody answered sends another
_CHOOSE_AFTER = 0.01  # Seconds after the first copy of a ROOT until the parent is chosen
_REBALANCE_AFTER = 0.5  # Seconds until all copies of a ROOT, and of messages, are there. Chosen
NEAR_WINDOW = 0.005
"""Seconds by which a much nearer parent may bring ROOT later. Measured: three sites: 3.5 copies
between them in place of 12.5; 1,000 nodes on a plane: 0.2 ms more latency."""
_NEARER_BY = 4.0  # Least ratio of the RTTs. Chosen: a link to another site takes longer


class SourceTrees:
    __slots__ = ("_clock", "_secret", "_state")

    def __init__(self, state: PlumtreeState, clock: float, secret: bytes) -> None:
        self._state = state
        self._clock = clock
        self._secret = secret

    def fire(self, now: Time) -> None:
        rebalanced = []
        for task, source in self._state.timers.pop_due(now):
            tree = self._state.trees.get(source)
            if tree is None:
                continue
            if task is TreeTask.REBALANCE:
                rebalanced.append(tree)
            elif task is TreeTask.CHOOSE_PARENT and not tree.own:
                self._choose_parent(tree, now)
            elif task is TreeTask.SEND_ROOT and tree.carried:
                self._send_root(source, now)
        self._tell(rebalanced, rebalanced=True)

    # The source

    def choose_tree(self, event: Publish, now: Time) -> SourceId | None:
        """The tree of our next message: our own once that stands, till then that of the nearest
        source, or None, the shared one. Sends ROOT first where one is due."""
        source = event.tree if event.source is None else event.source
        if source is None:
            return None
        trees = self._state.trees
        tree = trees.get(source)
        if tree is None or not tree.own or not tree.is_fresh(now):
            most = self._state.params.source_trees
            # Half for each neighbour. Measured: with an eighth, 100 sources of three messages
            # each all make trees, for a p99 1.7 times as long.
            share = most if len(self._state.links) < 2 else most // 2
            if trees.count_proven(share, now) < most:
                self._send_root(source, now)
        else:
            age = now - tree.root_at
            if tree.stands(now) and tree.children:
                enough = age >= ROOT_INTERVAL and tree.carried >= _ROOT_MESSAGES
                if enough or age >= TREE_IDLE / 2:
                    self._send_root(source, now)
                return source
            if age >= _RETRY:
                self._send_root(source, now)
        # Without an author it would seem to come from the root of any tree that it goes along.
        nearest = trees.nearest(self._state.links, now) if event.source is not None else None
        return None if nearest is None else nearest.source

    def _send_root(self, source: SourceId, now: Time) -> None:
        tree = self._state.trees.use(source)
        if not tree.own:
            # We are no child, and don't begin after what others claim to be our round.
            tree.own, tree.round, tree.cost = True, 0, 0.0
            tree.parents, tree.offers = [], {}
            self._schedule_rebalance(tree, now)
        tree.note_root(now)
        tree.round = max(tree.round + 1, int(now + self._clock))
        tree.proof = own_proof(self._secret, source, tree.round)
        self._flood([_line(tree)])

    def _flood(self, roots: list[TreeRoot], sender: PeerId | None = None) -> None:
        root = Root(tuple(roots))
        self._state.effects.extend([Send(p, root) for p in self._state.links if p != sender])

    # ROOT

    def on_root(self, peer: PeerId, message: Root, now: Time) -> None:
        """ROOT from `peer`: flood what is new, note what is another way to a known root."""
        for request in message.requests:
            self._on_request(peer, request, now)
        flooded = [e for root in message.roots if (e := self._note(peer, root, now))]
        if flooded:
            self._flood(flooded, peer)

    def _note(self, peer: PeerId, root: TreeRoot, now: Time) -> TreeRoot | None:
        """Note one line of a ROOT; returns the line to flood if its round is new here."""
        state, source = self._state, root.source
        tree = state.trees.get(source)
        if tree is not None and (tree.own or now < tree.service(peer).excluded_until):
            return None
        if state.standings.is_bad(peer, now):
            return None
        offer = Offer(now, min(root.cost, MAX_COST))
        cost = offer.cost + state.link_delay(peer)
        if tree is not None and root.proof == tree.proof:
            tree.offers.setdefault(peer, offer)
            return None
        if tree is not None and tree.is_fresh(now):
            # What was heard of the source first may be a liar's: it is believed while it serves,
            # and until the source itself says otherwise.
            served = tree.parent is not None and not tree.service(tree.parent).missed
            heard = served or now < tree.root_at + _RETRY
            believed = heard and state.source_of(peer) != source
            if is_later(root, tree) or (believed and not is_later(tree, root)):
                return None  # It is over, or not the source's.
            serves = served and peer == tree.parent
            if not serves and self._faults(tree, peer, now) >= ADOPT_AFTER:
                return None  # Others bring this round, too.
        tree = state.trees.use(source)
        tree.note_root(now)
        tree.round, tree.proof, tree.cost = root.round, root.proof, cost
        tree.offers = {peer: offer}
        state.timers.set_earliest((TreeTask.CHOOSE_PARENT, source), now + _CHOOSE_AFTER)
        return root._replace(cost=cost)

    def _choose_parent(self, tree: Tree, now: Time) -> None:
        """Take who brought ROOT first, or one much nearer; a parent that was hardly later stays."""
        self._schedule_rebalance(tree, now)
        offers = [(p, offer) for p, offer in tree.offers.items() if p in self._state.links]
        if not offers:
            return
        best, first = offers[0]
        for peer, offer in offers:
            soon = offer.arrived_at - first.arrived_at <= NEAR_WINDOW
            if soon and tree.is_feasible(peer) and self._is_much_nearer(peer, best):
                best = peer
        parent = tree.parent
        if tree.is_feasible(parent) and not self._is_much_nearer(best, parent):
            best = parent
        # Said again with each ROOT: the last GRAFT may be lost, or forgotten with the tree.
        tree.asked.pop(best, None)
        self._set_parent(tree, best, now)

    def _is_much_nearer(self, peer: PeerId, than: PeerId) -> bool:
        near, far = self._state.rtt_of(peer), self._state.rtt_of(than)
        return near is not None and far is not None and near * _NEARER_BY <= far

    def request_root(self, tree: Tree) -> None:
        """No way to the source is known to be good: ask it for another ROOT."""
        to = tree.parent
        if to is None:
            left = (peer for peer in self._state.links if peer not in tree.children)
            to = next((peer for peer in left if not tree.service(peer).failures), None)
        if to is not None and tree.round >= 0:
            tree.requested = tree.round
            self._state.send(to, Root(requests=(RootRequest(tree.source, tree.round),)))

    def _on_request(self, peer: PeerId, request: RootRequest, now: Time) -> None:
        """Pass a request on towards the source, once a round; the source answers with ROOT."""
        tree = self._state.trees.get(request.source)
        if tree is None or request.round != tree.round % ROUNDS:
            return  # Another round is on its way.
        if tree.own:
            at = max(now, tree.root_at + _REQUEST_INTERVAL)
            self._state.timers.set_earliest((TreeTask.SEND_ROOT, request.source), at)
        elif tree.requested != tree.round and tree.parent != peer:
            self.request_root(tree)

    # Parents

    def on_message(
        self, tree: Tree, message: GossipMessage, others: Container[PeerId], now: Time
    ) -> None:
        """A message has come down `tree` from its source; `others` sent it, too."""
        if tree.own:
            return
        peer, holders, parent = message.sender, message.holders or {}, tree.parent
        pulled = message.asked_at(peer) is not None
        failed = False
        for each in [*tree.parents, *tree.standbys]:
            pushed = each in others or (each == peer and not pulled)
            if pushed or (each in holders and each not in tree.parents):
                tree.note_served(each)
            elif each != peer and tree.note_missed(each, now):
                self._schedule_rebalance(tree, now)
                failed = failed or each == parent
        tree.parents = tree.parents[failed:]
        second = tree.parent
        if peer in tree.parents:
            if pulled:
                self._graft(tree, peer)  # The last one was lost.
        elif peer in self._state.links and pulled:
            self._on_pulled(tree, peer, now)
        elif peer in self._state.links and tree.asked.get(peer) is not Role.PUSH:
            # It pushes to us as its child, and is faster than the parent that we know.
            if tree.parent is None or tree.is_feasible(peer):
                tree.asked[peer] = Role.PUSH
                self._set_parent(tree, peer, now)
            else:
                self._state.send(peer, Prune(sources=(tree.source,)))
        if failed and tree.parent == second:
            self._find_parent(tree, now)
            self._tell([tree])

    def _on_pulled(self, tree: Tree, peer: PeerId, now: Time) -> None:
        """`peer` had to be asked for a message: it may be a better parent."""
        parent, missed = tree.parent, tree.service(tree.parent).missed
        # Each cycle of parents has a link that isn't feasible: look for another way at once.
        lost = not tree.is_feasible(parent) and peer not in tree.children
        if lost or (self._faults(tree, parent, now) >= ADOPT_AFTER and tree.is_feasible(peer)):
            self._set_parent(tree, peer, now)
        elif parent is not None and missed and missed % ADOPT_AFTER == 0:
            other = self._another_parent(tree, parent)
            if other is None:
                self._graft(tree, parent)
            else:
                self._set_parent(tree, other, now)
        else:
            return
        if not tree.is_feasible(peer):
            self.request_root(tree)

    def _faults(self, tree: Tree, peer: PeerId | None, now: Time) -> int:
        """What `peer` missed, and the answers that it owes: who withholds once may do so again."""
        link = self._state.links.get(peer)
        owed = 0 if link is None else link.unanswered(now, self._state.patience(link.peer))
        return tree.service(peer).missed + owed

    def _another_parent(self, tree: Tree, parent: PeerId) -> PeerId | None:
        """In place of the only parent, if that has sent nothing since it first missed a message: it
        may be gone. Measured: in the seconds after a crash that TCP doesn't report p99 is 33 to
        45 % lower than where it has to fail first."""
        link, missed_since = self._state.links.get(parent), tree.service(parent).missed_since
        if tree.parents[1:] or (link is not None and link.payload_at >= missed_since):
            return None
        other = tree.next_parent([peer for peer in self._state.links if peer != parent])
        return other if tree.is_feasible(other) else None

    def _graft(self, tree: Tree, peer: PeerId) -> None:
        self._state.send(peer, Graft(sources=(tree.source,)))

    def _set_parent(self, tree: Tree, peer: PeerId, now: Time) -> None:
        """Have `peer` push to us."""
        if tree.parent != peer:
            if tree.parent is not None or peer in tree.asked:
                self._schedule_rebalance(tree, now)
            tree.take_parent(peer)
        self._tell([tree])

    def _find_parent(self, tree: Tree, now: Time) -> None:
        """The parent is lost: take the next one, unless announcements are to show it (E40)."""
        if self._state.params.repair is EagerRepair.LAZY:
            return
        parent = tree.next_parent(self._state.links)
        if parent is not None:
            tree.take_parent(parent)
            self._schedule_rebalance(tree, now)
        if not tree.is_feasible(parent):
            self.request_root(tree)

    def _schedule_rebalance(self, tree: Tree, now: Time) -> None:
        """Choose further parents and standbys, and leave former parents, a little later."""
        self._state.timers.set((TreeTask.REBALANCE, tree.source), now + _REBALANCE_AFTER)

    def _tell(self, trees: list[Tree], *, rebalanced: bool = False) -> None:
        """GRAFT the parents in `trees`. Once they have `rebalanced`, choose further parents and
        standbys, and PRUNE all others."""
        state = self._state
        orders: dict[PeerId, tuple[list[SourceId], ...]] = {}
        for tree in trees:
            roles = tree.asked | dict.fromkeys(tree.parents, Role.PUSH)
            if rebalanced:
                roles = tree.choose(state.links, state.params.parents)
            for peer in {**tree.asked, **roles}:
                had, role = tree.asked.get(peer), roles.get(peer)
                again = rebalanced and peer in tree.parents[1:]
                if peer not in state.links or (had is role and not again):
                    continue
                order = orders.setdefault(peer, ([], [], [], []))
                if role is not None:
                    order[role].append(tree.source)
                if had is not None and role is not Role.PUSH:
                    order[2 + had].append(tree.source)
            tree.asked = roles
        for peer, order in orders.items():
            push, announce, leave, forget = (tuple(sources) for sources in order)
            if push or announce:
                state.send(peer, Graft(sources=push, standby=announce))
            if leave or forget:
                state.send(peer, Prune(sources=leave, standby=forget))

    # Neighbours

    def on_neighbor_up(self, peer: PeerId, now: Time) -> None:
        """Offer a new neighbour the trees that carry messages: others may be of dead sources."""
        roots = [
            _line(tree)
            for tree in self._state.trees.values()
            if tree.is_fresh(now) and (tree.own or (tree.parent is not None and tree.proven))
        ]
        if roots:
            self._state.send(peer, Root(tuple(roots)))

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """A link ended (E40)."""
        lost = []
        for tree in self._state.trees.values():
            if peer in tree.asked:
                self._schedule_rebalance(tree, now)
            was_parent = tree.parent == peer
            tree.forget(peer)
            if was_parent and tree.is_fresh(now):
                self._find_parent(tree, now)
                lost.append(tree)
        self._tell(lost)

    def on_graft(self, peer: PeerId, message: Graft, now: Time) -> None:
        """GRAFT for trees of sources: push to `peer`, or announce to it at once (E36)."""
        lost = []
        for tree in self._state.trees.named(message.sources):
            tree.children[peer] = None
            tree.announce_to.pop(peer, None)
            if tree.parent == peer:
                # It lost its parent and turns to us, its child: find another way.
                tree.parents.remove(peer)
                tree.asked.pop(peer, None)
                self._find_parent(tree, now)
                lost.append(tree)
        self._tell(lost)
        for tree in self._state.trees.named(message.standby):
            tree.announce_to[peer] = None

    def on_prune(self, peer: PeerId, message: Prune, now: Time) -> None:
        """PRUNE for trees of sources: neither push nor announce at once any more (E31)."""
        for tree in self._state.trees.named(message.sources):
            tree.children.pop(peer, None)
            if len(tree.parents) < self._state.params.parents and not tree.own:
                self._schedule_rebalance(tree, now)
        for tree in self._state.trees.named(message.standby):
            tree.announce_to.pop(peer, None)


def _line(tree: Tree) -> TreeRoot:
    return TreeRoot(tree.source, tree.round % ROUNDS, tree.cost, tree.proof)
