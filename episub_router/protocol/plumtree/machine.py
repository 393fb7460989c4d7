"""The broadcast machine: it passes events, messages and timers to its procedures."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason, Effect, NeighborDown, NeighborUp
from episub_router.protocol.messages import BroadcastMessage, Gossip, Graft, IHave, Root
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.eager_push import EagerPush
from episub_router.protocol.plumtree.lazy_push import LazyPush
from episub_router.protocol.plumtree.missing_messages import MissingMessages
from episub_router.protocol.plumtree.source_trees import SourceTrees
from episub_router.protocol.plumtree.state import MAX_DEBTORS, NeighborRecord, PlumtreeState
from episub_router.protocol.standing import BAD_PIECE, BROKEN_PROMISE
from episub_router.protocol.types import NEVER, MessageId, PeerId, RttOf, SourceOf, Time, itself
from episub_router.util.bounded import put_last

_NEWEST = 8
"""Messages whose senders should push the next one, too. Chosen: one of each active source."""


class Plumtree:
    """One node's part in one topic's broadcast: `handle` events, `receive` messages and
    `handle_timer`; all return the effects in order. `clock`: what makes the driver's time that of
    all nodes. `secret`: nobody else's, and the same after a restart: our rounds go on."""

    __slots__ = (
        "_eager_push", "_lazy_push", "_missing", "_source_trees", "_state", "standings", "store",
        "trees",
    )  # fmt: skip

    def __init__(
        self,
        params: BroadcastParams,
        rng: Random,
        rtt_of: RttOf,
        clock: float = 0.0,
        secret: bytes = b"",
        source_of: SourceOf = itself,
    ) -> None:
        self._state = state = PlumtreeState(params, rtt_of, source_of)
        self._lazy_push = LazyPush(state, rng)
        self._missing = MissingMessages(state)
        self._source_trees = SourceTrees(state, clock, secret)
        self._eager_push = EagerPush(state, self._lazy_push, self._missing, self._source_trees)
        self.standings, self.store, self.trees = state.standings, state.messages, state.trees

    @property
    def eager(self) -> Collection[PeerId]:
        """The eager push peers of the shared tree, as a read-only view."""
        return self._state.eager

    @property
    def lazy(self) -> list[PeerId]:
        """The other neighbours: its lazy push peers."""
        return [peer for peer in self._state.links if peer not in self.eager]

    @property
    def missing(self) -> int:
        """Number of messages announced and not received yet."""
        return len(self._missing.due)

    @property
    def pending(self) -> int:
        """Number of messages in validation."""
        return len(self.store.validating)

    def parents(self, now: Time) -> list[PeerId]:
        """Neighbours that push to us, in whichever tree; in the shared one those that did last."""
        newest = islice(self.store.recent(-NEVER, -NEVER), _NEWEST)
        shared = [m.sender for m in newest if m.tree is None and m.sender in self._state.links]
        fresh = (tree for tree in self.trees.values() if tree.is_fresh(now))
        return [*dict.fromkeys([*shared, *(parent for tree in fresh for parent in tree.parents)])]

    def publishes_to(self) -> list[PeerId]:
        """Neighbours that a message of our own is pushed to."""
        children = [child for tree in self.trees.values() if tree.own for child in tree.children]
        return [*dict.fromkeys(children or self.eager)]

    def pushes_to(self, peer: PeerId) -> bool:
        """Whether some payloads are pushed to `peer`."""
        return peer in self.eager or any(peer in tree.children for tree in self.trees.values())

    def condemned(self, now: Time) -> list[PeerId]:
        """Neighbours that are to be banned."""
        return self.standings.condemned(self._state.links, now)

    def charge(self, peer: PeerId, now: Time) -> None:
        """`peer` has sent a piece, or a preamble, that no correct peer passes on."""
        self.standings.add(peer, BAD_PIECE, now)

    def note_answer(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """`peer` has sent something of `id`, other than a GOSSIP."""
        self._state.note_copy(peer, id, now)

    def stop_asking(self, id: MessageId) -> None:
        """The message `id` comes in another way."""
        message = self._state.messages.open.get(id)
        if message is not None and message.informant is not None:
            self._missing.give_up(message)

    def receive(self, peer: PeerId, message: BroadcastMessage, now: Time) -> list[Effect]:
        """Act on a message from `peer`, neighbour or not."""
        state = self._state
        if isinstance(message, Gossip):
            self._eager_push.on_gossip(peer, message, now)
        elif peer not in state.links:
            state.drop(peer, DropReason.NOT_NEIGHBOR)
        elif isinstance(message, IHave):
            self._missing.on_ihave(peer, message, now)
        elif isinstance(message, Graft):
            self._missing.on_graft(peer, message)
            self._source_trees.on_graft(peer, message, now)
        elif isinstance(message, Root):
            self._source_trees.on_root(peer, message, now)
        elif message.sources or message.standby:
            self._source_trees.on_prune(peer, message, now)
        else:
            state.eager.pop(peer, None)
        return state.take_effects()

    def handle(
        self, event: ev.BroadcastEvent | NeighborUp | NeighborDown, now: Time
    ) -> list[Effect]:
        push = self._eager_push
        if isinstance(event, ev.PayloadArrived):
            push.on_payload_arrived(event, now)
        elif isinstance(event, ev.PayloadAccepted):
            push.on_payload_accepted(event, now)
        elif isinstance(event, ev.Publish):
            push.on_publish(event, now)
        elif isinstance(event, ev.PayloadRejected):
            push.on_payload_rejected(event, now)
        elif isinstance(event, ev.PayloadDropped):
            push.on_payload_dropped(event, now)
        elif isinstance(event, NeighborUp):
            self._on_neighbor_up(event.peer, now)
        elif isinstance(event, NeighborDown):
            self._on_neighbor_down(event, now)
        return self._state.take_effects()

    def accept_assembled(
        self, peer: PeerId | None, message: Gossip, takers: Collection[PeerId], now: Time
    ) -> list[Effect]:
        """A large message of `peer`, or our own, is whole and valid; `takers` get its pieces."""
        self._eager_push.on_assembled(peer, message, takers, now)
        return self._state.take_effects()

    def _on_neighbor_up(self, peer: PeerId, now: Time) -> None:
        """A new neighbour starts eager, and is announced the newest messages (E39)."""
        state = self._state
        state.first_link_at = min(state.first_link_at, now)
        if peer not in state.links:
            # What it owed when its last link ended it still owes.
            link = state.debtors.pop(peer, None) or NeighborRecord(peer)
            link.up_at, state.links[peer] = now, link
            state.eager[peer] = None
        self._lazy_push.on_neighbor_up(state.links[peer], now)
        self._source_trees.on_neighbor_up(peer, now)

    def _on_neighbor_down(self, event: NeighborDown, now: Time) -> None:
        link = self._state.links.pop(event.peer, None)
        if link is not None:
            if link.asked_at or link.doubted:
                link.owed, link.first_announced = (), {}
                put_last(self._state.debtors, event.peer, link, MAX_DEBTORS)
            if event.peer in self.eager:
                self._eager_push.on_neighbor_down(event.peer)
            self._lazy_push.on_neighbor_down(link, event, now)
            self._missing.on_neighbor_down(event.peer, now)
            self._source_trees.on_neighbor_down(event.peer, now)

    def on_reconnected(self, peer: PeerId, now: Time) -> list[Effect]:
        """Messages to the neighbour `peer` may have been lost: announce the newest to it."""
        link = self._state.links.get(peer)
        if link is not None:
            self._lazy_push.on_neighbor_up(link, now)
        return self._state.take_effects()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        # Asked after each message, so it is written out: `min` would take most of the time.
        deadline = self._lazy_push.deadline
        missing, trees = self._missing.due.deadline, self._state.timers.deadline
        if missing < deadline:
            deadline = missing
        return trees if trees < deadline else deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        state = self._state
        state.messages.expire(now)
        for peer, link in state.links.items():
            if link.asked_at:
                for _ in range(link.count_broken(now)):
                    state.standings.add(peer, BROKEN_PROMISE, now)
        if self._lazy_push.deadline <= now:
            self._lazy_push.flush(now)
        if self._missing.due.deadline <= now:
            self._missing.fire(now)
        if state.timers.deadline <= now:
            self._source_trees.fire(now)
        return state.take_effects()

    def clear(self) -> None:
        """We left the topic: stop the timers and forget all but the ids."""
        state = self._state
        state.links.clear()
        state.first_link_at = NEVER
        state.messages.clear()
        self._lazy_push.clear()
        self._missing.clear()
        state.timers.clear()
        state.trees.clear()
        state.eager.clear()
        state.debtors.clear()
