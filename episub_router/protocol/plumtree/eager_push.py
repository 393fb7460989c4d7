"""Eager push: payloads are delivered once and pushed on; duplicates shape the tree (E30-E32, E38).

The link of the first copy stays, PRUNE removes the links of the others. Parent selection and
tree optimisation replace the link of the first copy where another is better.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Deliver, DropReason, Send
from episub_router.protocol.messages import Gossip, MessageSummary
from episub_router.protocol.plumtree.missing_messages import MissingMessage
from episub_router.protocol.plumtree.parent_selection import SOONEST_REPAIR
from episub_router.protocol.plumtree.pending_validation import Copy
from episub_router.protocol.plumtree.root import RootProcedure
from episub_router.protocol.plumtree.source_push import SourcePush
from episub_router.protocol.plumtree.state import ANNOUNCE_WINDOW, PlumtreeState
from episub_router.protocol.standing import rules
from episub_router.protocol.types import MessageId, PeerId, Time

_NEWCOMER = 2 * ANNOUNCE_WINDOW
"""Seconds after joining in which messages may be older than the node. Longer, and what is lost to a
link that breaks in a young overlay is not announced when it comes back."""


class EagerPush:
    """Handles payloads: our own, received ones, and those that validation has accepted."""

    __slots__ = ("_root", "_source_push", "_state")

    def __init__(self, state: PlumtreeState, root: RootProcedure) -> None:
        self._state = state
        self._root = root
        self._source_push = SourcePush(state, root)

    def on_publish(self, event: ev.Publish, now: Time) -> None:
        """The application publishes: push to all eager peers (E30)."""
        if event.id not in self._state.store:
            along = self._root.choose_tree(event.source, now)
            own = Gossip(event.id, 0, event.payload, event.size, event.source, along)
            self._accept(None, own, {}, now, now)

    def on_assembled(
        self, peer: PeerId | None, message: Gossip, takers: Collection[PeerId], now: Time
    ) -> None:
        """A message that went in pieces is whole: deliver it, and push it along the default tree to
        neighbours that aren't `takers` of pieces."""
        state = self._state
        id, hops = message.id, message.hops
        state.pending.pop(id)
        if id in state.store:
            return
        self._store(peer, message, state.missing.remove(id), now, now)
        state.effects.append(Deliver(id, message.payload, peer, hops))
        whole = replace(message, hops=state.next_hops(hops))
        pushed = [other for other in state.push_peers.eager if other not in takers]
        state.effects.extend([Send(other, whole) for other in pushed if other != peer])
        holders = [*takers, *pushed]
        if any(other not in holders for other in state.push_peers.neighbors):
            state.lazy_push.add(MessageSummary(id, whole.hops), holders, now)

    def on_gossip(self, peer: PeerId, message: Gossip, now: Time) -> None:
        """GOSSIP from a driver without validation: new (E32) or a duplicate (E31)."""
        state = self._state
        state.note_copy(peer, message.id, now)
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
        state.note_copy(event.peer, event.id, now)
        if event.id in state.store:
            self._on_duplicate(event.peer, event.id, event.hops, now, now)
        elif not state.pending.add(event.peer, event.id, event.hops, now, event.along):
            state.drop(event.peer, DropReason.PENDING_FULL)

    def on_payload_accepted(self, event: ev.PayloadAccepted, now: Time) -> None:
        """A copy has proved valid: accept it, and treat the other copies as duplicates."""
        state = self._state
        copies = state.pending.pop(event.id)
        if event.id in state.store:
            return
        first = copies.pop(event.peer, Copy(1, now))
        hops = state.check_hops(event.peer, first.hops)
        message = Gossip(event.id, hops, event.payload, event.size, event.source, first.along)
        self._accept(event.peer, message, copies, first.arrived_at, now)

    def on_payload_rejected(self, event: ev.PayloadRejected, now: Time) -> None:
        """A copy has proved invalid: ask others at once for the message, if they announced it."""
        state = self._state
        state.pending.remove(event.id, event.peer)
        if event.forged:
            state.standings.add(event.peer, rules.FORGED_PAYLOAD, now)
        if event.id not in state.pending:
            state.missing.on_rejected(event.id, now)

    def on_payload_dropped(self, event: ev.PayloadDropped, now: Time) -> None:
        """A push could not be queued: announce the message to that neighbour instead."""
        state = self._state
        if event.peer in state.push_peers:
            state.lazy_push.add_for(event.peer, [MessageSummary(event.id, event.hops)], now)
        stored = state.store.get(event.id)
        if stored is not None and stored.served and stored.served.get(event.peer):
            # An answer to a GRAFT that was never sent doesn't count.
            stored.served[event.peer] -= 1

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
        message = self._with_tree(peer, message, now)
        id, hops, payload = message.id, message.hops, message.payload
        missing = state.missing.remove(id)
        if missing is not None:
            state.graft_wait.note_first_copy(peer, missing, arrived_at, state.rtt_of(peer))
        self._store(peer, message, missing, arrived_at, now)
        if peer is not None:
            state.standings.add(peer, rules.FIRST_COPY, now)
        effects.append(Deliver(id, payload, peer, hops))
        if message.along is None:
            self._on_first_copy(peer, missing)
            targets = [*state.push_peers.eager]
        else:
            targets = [*self._source_push.on_first_copy(peer, message, missing, now)]
            eager = state.push_peers.eager
            targets += [other for other in state.push_peers.default_only if other in eager]
        next_hops = state.next_hops(hops)
        push = Gossip(id, next_hops, payload, message.size, message.source, message.along)
        holders = [*copies] if missing is None else [*copies, *(p for p, _ in missing.announcers)]
        if peer is not None:
            holders.append(peer)
        pushed = [other for other in targets if other not in holders]
        effects.extend([Send(other, push) for other in pushed])
        for other, copy in copies.items():
            self._on_duplicate(other, id, copy.hops, copy.arrived_at, now)
        if peer is not None and missing is not None and message.along is None:
            self._optimize(peer, id, hops, missing.announcers)
        holders += pushed
        if message.along is not None:
            self._source_push.announce_at_once(peer, message, missing, holders)
        if any(other not in holders for other in state.push_peers.neighbors):
            state.lazy_push.add(MessageSummary(id, next_hops), holders, now)

    def _with_tree(self, peer: PeerId | None, message: Gossip, now: Time) -> Gossip:
        """`message` as it goes on: a neighbour without trees of single sources sends it without
        the tree that it belongs to."""
        trees, source = self._state.trees, message.source
        if not trees.most and message.along is not None:
            return replace(message, along=None)
        if message.along is not None or peer is None or source is None:
            return message
        tree = trees.get(source)
        if tree is None or not trees.stands(tree, now):
            return message
        return replace(message, along=source)

    def _on_first_copy(self, peer: PeerId | None, missing: MissingMessage | None) -> None:
        """The link of a first copy belongs to the default tree."""
        state = self._state
        if peer is None:
            return
        asked = missing is not None and peer in missing.asked
        if state.push_peers.make_eager(peer) and not asked:
            # Our PRUNE hasn't reached it, and would stop its pushes once it does.
            state.graft(peer)
        state.push_peers.note_parent(peer)
        state.parent_selection.note_first_copy(peer)

    def _store(
        self,
        peer: PeerId | None,
        message: Gossip,
        missing: MissingMessage | None,
        arrived_at: Time,
        now: Time,
    ) -> None:
        state = self._state
        # A node that has just joined is announced, and pushed, messages that may be older.
        old = peer is not None and now < state.first_neighbor_at + _NEWCOMER
        asked = missing is not None and len(missing.asked) > 0
        state.store.add(
            message.id,
            message.hops,
            message.payload,
            message.size,
            now,
            message.source,
            peer,
            arrived_at=arrived_at,
            old=old,
            along=message.along,
            missing=missing if asked else None,
        )
        if message.along is None:
            state.leading_source.note_message(message.source)

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
        first = state.store.entry(id)
        missing = first.missing
        if missing is not None and peer not in missing.asked:
            state.graft_wait.note_pushed_copy(missing, arrived_at)
        if first.along is not None:
            if peer in peers.default_only:
                state.prune(peer)
            else:
                self._source_push.on_duplicate(peer, first)
            return
        if peers.is_eager(peer):
            if peer == first.parent or not state.leading_source.may_prune(first.source):
                return
            if selection.tolerates_late_copy(peer, arrived_at - first.arrived_at, now):
                return
            if first.parent is not None and not peers.is_eager(first.parent):
                # The first copy's sender has pruned us or is gone: don't lose this link too.
                self._adopt_parent(peer, first.parent, now)
                return
            if selection.prefers(
                peer, hops, arrived_at - first.arrived_at, first.parent, first.hops
            ):
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
        state.store.replace_parent(before, peer, now - SOONEST_REPAIR)

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
