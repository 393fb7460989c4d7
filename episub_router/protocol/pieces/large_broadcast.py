"""Broadcast in which large messages go in pieces: Plumtree's interface, with pieces behind it."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Effect, NeighborDown, NeighborUp
from episub_router.protocol.messages import BroadcastMessage, Gossip, Graft, IHave
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import PIECE_MESSAGES, PieceAnnounce, PieceMessage
from episub_router.protocol.pieces.machine import Pieces
from episub_router.protocol.pieces.state import Belongs
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.types import PeerId, RttOf, Time


class LargeBroadcast:
    """Passes small messages to `plumtree` and large ones to `pieces`.

    A large message goes whole to neighbours that take no pieces, and comes whole from them.
    """

    __slots__ = ("_plumtree", "pieces")

    def __init__(
        self, params: BroadcastParams, plumtree: Plumtree, rtt_of: RttOf, belongs: Belongs
    ) -> None:
        self._plumtree = plumtree
        self.pieces = Pieces(params, rtt_of, belongs, plumtree.charge)

    def receive(
        self, peer: PeerId, message: BroadcastMessage | PieceMessage, now: Time
    ) -> list[Effect]:
        """Act on a message from `peer`, neighbour or not."""
        plumtree, pieces = self._plumtree, self.pieces
        effects: list[Effect] = []
        if isinstance(message, PIECE_MESSAGES):
            effects = pieces.receive(peer, message, now)
            if isinstance(message, PieceAnnounce):
                id = message.preamble.id
                plumtree.note_answer(peer, id, now)
                if id in pieces:
                    plumtree.stop_asking(id)
            return effects
        if isinstance(message, Gossip):
            if message.id in pieces and message.id not in plumtree.store:
                return plumtree.accept_assembled(peer, message, pieces.takers, now)
        elif isinstance(message, IHave):
            if any(line.id in pieces for line in message.summary):
                message = IHave(tuple(line for line in message.summary if line.id not in pieces))
        elif isinstance(message, Graft) and message.ids and peer in pieces.takers:
            effects = pieces.offer(message.ids, peer)
            if effects:
                message = replace(message, ids=tuple(id for id in message.ids if id not in pieces))
        return effects + plumtree.receive(peer, message, now)

    def handle(
        self, event: ev.BroadcastEvent | NeighborUp | NeighborDown, now: Time
    ) -> list[Effect]:
        """Act on `event` at `now`."""
        plumtree, pieces = self._plumtree, self.pieces
        if isinstance(event, ev.PublishInPieces):
            preamble = event.preamble
            whole = Gossip(preamble.id, 0, event.payload, event.size, preamble.source)
            effects = plumtree.accept_assembled(None, whole, pieces.takers, now)
            return effects + pieces.publish(preamble, event.pieces, now)
        if isinstance(event, ev.PayloadAccepted) and event.id in pieces:
            transfer = pieces.transfers.get(event.id)
            hops = 1 if transfer is None else transfer.hops
            whole = Gossip(event.id, hops, event.payload, event.size, event.source)
            return plumtree.accept_assembled(event.peer, whole, pieces.takers, now)
        effects = plumtree.handle(event, now)
        if isinstance(event, NeighborUp):
            effects += pieces.on_neighbor_up(event.peer, now)
        elif isinstance(event, NeighborDown):
            effects += pieces.on_neighbor_down(event.peer, now)
        return effects

    def on_reconnected(self, peer: PeerId, now: Time) -> list[Effect]:
        """Messages to the neighbour `peer` may have been lost."""
        return self._plumtree.on_reconnected(peer, now) + self.pieces.on_neighbor_up(peer, now)

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return min(self._plumtree.next_deadline(), self.pieces.next_deadline())

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        effects = self._plumtree.handle_timer(now)
        if self.pieces.next_deadline() <= now:
            effects += self.pieces.handle_timer(now)
        return effects

    def clear(self) -> None:
        """We left the topic: forget all but the ids."""
        self._plumtree.clear()
        self.pieces.clear()
