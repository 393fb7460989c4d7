"""Eager push: payloads are delivered once and pushed on; duplicates shape the tree (E30-E32, E38).

The link of the first copy stays, PRUNE removes the links of the others. Parent selection and
tree optimisation replace the link of the first copy where another is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Deliver, DropReason, Send
from episub_router.protocol.messages import Gossip, MessageSummary
from episub_router.protocol.plumtree.missing_messages import MissingMessage
from episub_router.protocol.plumtree.pending_validation import Copy
from episub_router.protocol.plumtree.state import ANNOUNCE_WINDOW, PlumtreeState
from episub_router.protocol.types import MessageId, PeerId, Time


class EagerPush:
    """Handles payloads: our own, received ones, and those that validation has accepted."""

    __slots__ = ("_state",)

    def __init__(self, state: PlumtreeState) -> None:
        self._state = state

    def on_publish(self, event: ev.Publish, now: Time) -> None:
        """The application publishes: push to all eager peers (E30)."""
        if event.id not in self._state.store:
            own = Gossip(event.id, 0, event.payload, event.size, event.source)
            self._accept(None, own, {}, now, now)

    def on_gossip(self, peer: PeerId, message: Gossip, now: Time) -> None:
        """GOSSIP from a driver without validation: new (E32) or a duplicate (E31)."""
        state = self._state
        if message.id in state.store:
            self._on_duplicate(peer, message.id, message.hops, now, now)
        else:
            hops = state.check_hops(peer, message.hops)
            if hops != message.hops:
                message = replace(message, hops=hops)
            self._accept(peer, message, {}, now, now)

    def on_payload_arrived(self, event: ev.PayloadArrived, now: Time) -> None:
        """A copy has arrived: a duplicate, or to be validated first."""
        state = self._state
        if event.id in state.store:
            self._on_duplicate(event.peer, event.id, event.hops, now, now)
        elif not state.pending.add(event.peer, event.id, event.hops, now):
            state.drop(event.peer, DropReason.PENDING_FULL)

    def on_payload_accepted(self, event: ev.PayloadAccepted, now: Time) -> None:
        """A copy has proved valid: accept it, and treat the other copies as duplicates."""
        state = self._state
        copies = state.pending.pop(event.id)
        if event.id in state.store:
            return
        first = copies.pop(event.peer, Copy(1, now))
        hops = state.check_hops(event.peer, first.hops)
        message = Gossip(event.id, hops, event.payload, event.size, event.source)
        self._accept(event.peer, message, copies, first.arrived_at, now)

    def on_payload_dropped(self, event: ev.PayloadDropped, now: Time) -> None:
        """A push could not be queued: announce the message to that neighbour instead."""
        state = self._state
        if event.peer in state.push_peers:
            state.lazy_push.add_for(event.peer, [MessageSummary(event.id, event.hops)], now)

    def _accept(
        self,
        peer: PeerId | None,
        message: Gossip,
        copies: Mapping[PeerId, Copy],
        arrived_at: Time,
        now: Time,
    ) -> None:
        """Deliver a new message, which arrived at `arrived_at`, and push it on, except to the
        senders of other `copies` (E30, E32)."""
        state = self._state
        effects = state.effects
        id, hops, payload = message.id, message.hops, message.payload
        missing = state.missing.remove(id)
        self._store(peer, message, missing, arrived_at, now)
        effects.append(Deliver(id, payload, peer, hops))
        if peer is not None:
            if state.make_eager(peer):
                # Our PRUNE hasn't reached it, and would stop its pushes once it does.
                state.graft(peer)
            state.push_peers.note_parent(peer)
            state.parent_selection.note_first_copy(peer)
        next_hops = state.next_hops(hops)
        push = Gossip(id, next_hops, payload, message.size, message.source)
        announcers = () if missing is None else [other for other, _ in missing.announcers]
        for other in state.push_peers.eager:
            if other != peer and other not in copies and other not in announcers:
                effects.append(Send(other, push))
        for other, copy in copies.items():
            self._on_duplicate(other, id, copy.hops, copy.arrived_at, now)
        if peer is not None and missing is not None:
            self._optimize(peer, id, hops, missing.announcers)
        if state.push_peers.lazy:
            holders = [*copies, *announcers]
            if peer is not None:
                holders.append(peer)
            state.lazy_push.add(MessageSummary(id, next_hops), holders, now)

    def _store(
        self,
        peer: PeerId | None,
        message: Gossip,
        missing: MissingMessage | None,
        arrived_at: Time,
        now: Time,
    ) -> None:
        state = self._state
        # A node that has just joined is announced messages that may be older than itself.
        joined_at = state.first_neighbor_at
        old = missing is not None and missing.grafts > 0
        old = old and now < joined_at + 2 * ANNOUNCE_WINDOW
        id, hops, size, source = message.id, message.hops, message.size, message.source
        state.store.add(
            id, hops, message.payload, size, now, source, peer, arrived_at=arrived_at, old=old
        )
        state.leading_source.note_message(source)

    def _on_duplicate(
        self, peer: PeerId, id: MessageId, hops: int, arrived_at: Time, now: Time
    ) -> None:
        """A copy of a message that we have arrived at `arrived_at`: PRUNE its link (E31), unless
        it is the better one.

        PRUNE is sent even to a lazy peer: it pushed, so it missed our last one.
        """
        state = self._state
        peers, selection = state.push_peers, state.parent_selection
        state.check_hops(peer, hops)  # Only to count it: out of range, they win nothing here.
        if peer not in peers:
            return
        state.lazy_push.note_holder(id, peer)
        if peers.is_eager(peer):
            first = state.store.entry(id)
            if peer == first.parent or not state.leading_source.may_prune(first.source):
                return
            if selection.tolerates_late_copy(peer, arrived_at - first.arrived_at, now):
                return
            if first.parent is not None and not peers.is_eager(first.parent):
                # The first copy's sender has pruned us or is gone: don't lose this link too.
                self._adopt_parent(peer, first.parent, now)
                return
            if selection.prefers(peer, hops, arrived_at, first):
                assert first.parent is not None
                state.swap_parent(first.parent, by=peer)
                selection.expect_crossing_prune(peer, first.accepted_at)
                self._adopt_parent(peer, first.parent, now)
                return
        state.prune(peer)

    def _adopt_parent(self, peer: PeerId, before: PeerId, now: Time) -> None:
        """`peer` is our parent in place of the one `before`, also for messages in flight."""
        state = self._state
        state.push_peers.note_parent(peer)
        state.store.replace_parent(before, peer, now - state.params.soonest_repair)

    def _optimize(
        self, peer: PeerId, id: MessageId, hops: int, announcers: list[tuple[PeerId, int]]
    ) -> None:
        """Tree optimisation (E38): swap the link that pushed for one of an announcer that would
        have pushed in fewer hops."""
        state = self._state
        threshold = state.params.optimization_threshold
        peers = state.push_peers
        if threshold is None or not peers.is_eager(peer):
            return
        better, fewest = min(
            ((other, announced) for other, announced in announcers if peers.is_lazy(other)),
            key=lambda entry: entry[1],
            default=(None, hops),
        )
        if hops - fewest > threshold:
            state.swap_parent(peer, by=better)
            state.store.entry(id).parent = better
