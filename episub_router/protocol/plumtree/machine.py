"""The broadcast machine: Plumtree as Episub reworks it (E30-E41).

NeighborUp and NeighborDown say which peers are neighbours; each is an eager push peer or a lazy
push peer. Two timers, of the lazy push queue and of the missing messages, run only on demand.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Effect, NeighborDown, NeighborUp, Send
from episub_router.protocol.messages import BroadcastMessage, Gossip, Graft, IHave, Root
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.eager_push import EagerPush
from episub_router.protocol.plumtree.message_store import MessageStore
from episub_router.protocol.plumtree.push_peers import PushPeers
from episub_router.protocol.plumtree.root import RootProcedure
from episub_router.protocol.plumtree.source_tree import SourceTrees
from episub_router.protocol.plumtree.state import PlumtreeState
from episub_router.protocol.plumtree.tree_repair import TreeRepair
from episub_router.protocol.standing import Standings, rules
from episub_router.protocol.types import MessageId, PeerId, RttOf, Time


class Plumtree:
    """One node's part in one topic's broadcast.

    Drive it with `handle` (events), `receive` (messages) and `handle_timer`; all return the
    effects in order.
    """

    __slots__ = ("_eager_push", "_root", "_state", "_tree_repair")

    def __init__(
        self, me: PeerId, params: BroadcastParams, rng: Random, rtt_of: RttOf, epoch: int = 0
    ) -> None:
        self._state = state = PlumtreeState(me, params, rng, rtt_of, epoch)
        self._root = RootProcedure(state)
        self._eager_push = EagerPush(state, self._root)
        self._tree_repair = TreeRepair(state)

    @property
    def push_peers(self) -> PushPeers:
        """The eager and the lazy push peers, to look at."""
        return self._state.push_peers

    def parents(self, now: Time) -> list[PeerId]:
        """Neighbours that push to us: in the default tree, and in the trees of single sources."""
        state = self._state
        fresh = (tree for _, tree in state.trees.items() if state.trees.is_fresh(tree, now))
        both = (parent for tree in fresh for parent in (tree.parent, tree.second))
        parents = [parent for parent in both if parent is not None]
        return [*dict.fromkeys([*state.push_peers.parents, *parents])]

    def publishes_to(self) -> list[PeerId]:
        """Neighbours that a message of our own is pushed to."""
        state = self._state
        own = [tree for _, tree in state.trees.items() if tree.own and tree.children]
        if not own:
            return [*state.push_peers.eager]
        eager = state.push_peers.eager
        older = [peer for peer in state.push_peers.default_only if peer in eager]
        return [*dict.fromkeys([*(child for tree in own for child in tree.children), *older])]

    def pushes_to(self, peer: PeerId) -> bool:
        """Whether some payloads are pushed to `peer`: it is eager, or a child in a tree."""
        state = self._state
        return state.push_peers.is_eager(peer) or any(
            peer in tree.children for _, tree in state.trees.items()
        )

    @property
    def store(self) -> MessageStore:
        """The message cache and the ids seen, to look at."""
        return self._state.store

    @property
    def trees(self) -> SourceTrees:
        """The trees of single sources, to look at."""
        return self._state.trees

    @property
    def standings(self) -> Standings:
        """What neighbours and others have earned."""
        return self._state.standings

    def condemned(self, now: Time) -> list[PeerId]:
        """Neighbours that are to be banned."""
        state = self._state
        return [p for p in state.push_peers.neighbors if state.standings.is_condemned(p, now)]

    def charge(self, peer: PeerId, now: Time) -> None:
        """`peer` has sent what no correct peer passes on, other than a payload."""
        self._state.standings.add(peer, rules.FORGED_PAYLOAD, now)

    def note_answer(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """`peer` has sent something of `id`, other than a GOSSIP."""
        self._state.note_copy(peer, id, now)

    @property
    def missing(self) -> int:
        """Number of messages announced and not received yet."""
        return len(self._state.missing)

    @property
    def pending(self) -> int:
        """Number of messages in validation."""
        return len(self._state.pending)

    def receive(self, peer: PeerId, message: BroadcastMessage, now: Time) -> list[Effect]:
        """Act on a message from `peer`, neighbour or not."""
        state = self._state
        if isinstance(message, Gossip):
            self._eager_push.on_gossip(peer, message, now)
        elif isinstance(message, IHave):
            self._tree_repair.on_ihave(peer, message, now)
        elif isinstance(message, Graft):
            self._tree_repair.on_graft(peer, message)
            if peer in state.push_peers:
                self._root.on_graft(peer, message, now)
        elif isinstance(message, Root):
            self._root.on_root(peer, message, now)
        elif message.sources or message.standby:
            self._root.on_prune(peer, message, now)
        elif not state.parent_selection.is_crossing_prune(peer, now):
            state.push_peers.make_lazy(peer)
        return state.take_effects()

    def handle(
        self, event: ev.BroadcastEvent | NeighborUp | NeighborDown, now: Time
    ) -> list[Effect]:
        """Act on `event` at `now`."""
        if isinstance(event, ev.PayloadArrived):
            self._eager_push.on_payload_arrived(event, now)
        elif isinstance(event, ev.PayloadAccepted):
            self._eager_push.on_payload_accepted(event, now)
        elif isinstance(event, ev.Publish):
            self._eager_push.on_publish(event, now)
        elif isinstance(event, ev.PayloadRejected):
            self._eager_push.on_payload_rejected(event, now)
        elif isinstance(event, ev.PayloadDropped):
            self._eager_push.on_payload_dropped(event, now)
        elif isinstance(event, NeighborUp):
            self._on_neighbor_up(event, now)
        elif isinstance(event, NeighborDown):
            self._on_neighbor_down(event, now)
        return self._state.take_effects()

    def accept_assembled(
        self, peer: PeerId | None, message: Gossip, takers: Collection[PeerId], now: Time
    ) -> list[Effect]:
        """A large message is whole and valid; it needs no pushing to `takers` of pieces. `peer` is
        None for our own."""
        self._eager_push.on_assembled(peer, message, takers, now)
        return self._state.take_effects()

    def _on_neighbor_up(self, event: NeighborUp, now: Time) -> None:
        """A new neighbour starts eager, and is announced the newest messages (E39)."""
        state = self._state
        state.first_neighbor_at = min(state.first_neighbor_at, now)
        state.push_peers.add(event.peer, source_trees=event.source_trees)
        state.announce_recent(event.peer, now)
        self._root.on_neighbor_up(event.peer, now)

    def _on_neighbor_down(self, event: NeighborDown, now: Time) -> None:
        state, peer = self._state, event.peer
        state.note_down(event, now)
        state.lazy_push.remove_peer(peer)
        state.parent_selection.remove_neighbor(peer)
        state.promises.forget(peer)
        self._tree_repair.on_neighbor_down(peer, now)
        self._root.on_neighbor_down(peer, now)

    def on_reconnected(self, peer: PeerId, now: Time) -> list[Effect]:
        """Messages to the neighbour `peer` may have been lost: announce the newest to it."""
        self._state.announce_recent(peer, now)
        return self._state.take_effects()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        # After each message: `min` of three would be the larger part of it.
        state = self._state
        deadline = state.lazy_push.deadline
        missing, root = state.missing.deadline, self._root.deadline
        if missing < deadline:
            deadline = missing
        return root if root < deadline else deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        state = self._state
        state.store.expire(now)
        state.pending.expire(now)
        for peer in state.promises.broken(now):
            state.standings.add(peer, rules.BROKEN_PROMISE, now)
        if state.lazy_push.deadline <= now:
            for peer, message in state.lazy_push.flush(state.push_peers.neighbors, now):
                state.effects.append(Send(peer, message))
        if state.missing.deadline <= now:
            self._tree_repair.fire(now)
        if self._root.deadline <= now:
            self._root.fire(now)
        return state.take_effects()

    def clear(self) -> None:
        """We left the topic: stop both timers and forget all but the ids."""
        self._state.clear()
        self._root.clear()
