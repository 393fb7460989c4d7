"""The machine of large messages: pieces along narrow trees, and pulled where one is missing."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol import piece_messages as m
from episub_router.protocol.effects import DropReason, Effect
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.pieces.cutting import belongs
from episub_router.protocol.pieces.pulling import KEPT_FOR, Pulling
from episub_router.protocol.pieces.relay import Relay
from episub_router.protocol.pieces.state import (
    GREET,
    PULL,
    RECENT,
    WANT,
    Belongs,
    Charge,
    PiecesState,
)
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, RttOf, Time

_GREET_AGAIN = 5.0
"""Seconds until a neighbour that has not answered is greeted again; twice as long each time."""

_GREET_UNTIL = 80.0
"""Seconds after which one that answers no greeting takes no pieces: after five of them."""


class Pieces:
    """One node's part in one topic's large messages.

    Drive it with `publish`, `receive`, `on_neighbor_up`, `on_neighbor_down` and `handle_timer`; all
    return the effects in order. `rtt_of` knows the round-trip times of neighbours, `belongs` checks
    a piece against its preamble, `charge` is called with peers that send what no correct one passes
    on.
    """

    __slots__ = (
        "_building", "_greeted", "_pulling", "_relay", "_state", "takers", "transfers", "trees",
    )  # fmt: skip

    def __init__(
        self,
        params: BroadcastParams,
        rtt_of: RttOf,
        belongs: Belongs = belongs,
        charge: Charge = lambda peer, now: None,
    ) -> None:
        self._state = state = PiecesState(params, belongs, rtt_of, charge)
        # Read-only views:
        self.takers, self.transfers, self.trees = state.takers, state.transfers, state.trees
        self._greeted: dict[PeerId, Time] = {}  # Each neighbour, and when its connection came
        self._building = TreeBuilding(state)
        self._pulling = Pulling(state, self._building)
        self._relay = Relay(state, self._building, self._pulling)

    def __contains__(self, id: MessageId) -> bool:
        """Whether the message `id` came, or comes, in pieces, and wasn't given up."""
        return id in self.transfers and not self.transfers.is_lost(id)

    def publish(self, preamble: m.Preamble, pieces: tuple[m.Piece, ...], now: Time) -> list[Effect]:
        """Send a message of our own."""
        self._relay.publish(preamble, pieces, now)
        return self._state.take_effects()

    def publishes_to(self) -> list[PeerId]:
        """Those that the pieces of our own messages are pushed to."""
        own = (tree for tree in self.trees.by_source.values() if tree.own)
        return [child for tree in own for child in tree.children]

    def more(self, id: MessageId, peer: PeerId) -> int:
        """How many pieces of the message `id` the neighbour `peer` lacks that weren't sent to it:
        none where the message is forgotten."""
        transfer = self.transfers.get(id)
        return 0 if transfer is None else transfer.lacked_by(peer).bit_count()

    def offer(self, ids: Iterable[MessageId], peer: PeerId) -> list[Effect]:
        """`peer` asked for the messages `ids` whole, and takes pieces: announce those in pieces."""
        for transfer in map(self.transfers.get, ids):
            if transfer is not None:
                self._state.announce(transfer, peer)
        return self._state.take_effects()

    def receive(self, peer: PeerId, message: m.PieceMessage, now: Time) -> list[Effect]:
        """Act on a message from `peer`, which has to be a neighbour."""
        state = self._state
        if peer not in self._greeted:
            state.drop(peer, DropReason.NOT_NEIGHBOR)
        elif isinstance(message, m.Piece):
            self._relay.on_piece(peer, message, now)
        elif isinstance(message, m.PieceAnnounce):
            self._take_up(peer)
            self._relay.on_announce(peer, message, now)
        elif isinstance(message, m.PieceOffer):
            is_greeting = not message.offers and not message.accepted
            if is_greeting and peer in state.takers and (GREET, peer) not in state.timers:
                self._greet(peer, now + _GREET_AGAIN)  # It lacks ours. The answer greets, too.
            self._take_up(peer)
            self._building.on_offer(peer, message, now)
        elif not isinstance(message, m.PieceGraft):
            self._building.on_prune(peer, message, now)
        elif message.source is None:
            self._pulling.on_wants(peer, message.wants, now)
        else:
            self._building.on_graft(peer, message.source, message.wants, now)
        return state.take_effects()

    def on_neighbor_up(self, peer: PeerId, now: Time) -> list[Effect]:
        """A new neighbour, or one to which messages may have been lost: it may take pieces."""
        self._greeted[peer] = now
        self._greet(peer, now + _GREET_AGAIN)
        return self._state.take_effects()

    def _greet(self, peer: PeerId, again_at: Time) -> None:
        """Notify `peer` that we take pieces; `again_at`, where it hasn't answered: a greeting may
        be lost where two connections replace each other."""
        self._building.greet(peer)
        self._state.timers.set((GREET, peer), again_at)

    def _take_up(self, peer: PeerId) -> None:
        """`peer` takes pieces: it has missed what went out since its link came, and what of our
        own nobody has."""
        state = self._state
        if peer in state.takers:
            return
        since = self._greeted[peer] - RECENT
        state.takers[peer] = None
        state.timers.cancel((GREET, peer))
        for transfer in state.transfers.known():
            is_unheard = transfer.first_bringer is None and not transfer.has
            if transfer.whole_at is None or transfer.whole_at >= since or is_unheard:
                state.announce(transfer, peer)

    def on_neighbor_down(self, peer: PeerId, now: Time) -> list[Effect]:
        """A neighbour is gone: what was asked of it is asked of others at once."""
        state = self._state
        state.timers.cancel((GREET, peer))
        self._greeted.pop(peer, None)
        state.takers.pop(peer, None)
        for transfer in state.transfers.known():
            if transfer.pulled.get(peer):
                state.timers.set_earliest((PULL, transfer.preamble.id), now)
            transfer.forget_peer(peer)
        self._building.on_neighbor_down(peer, now)
        return state.take_effects()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return self._state.timers.deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        state = self._state
        state.transfers.expire(now - KEPT_FOR)
        for kind, key in state.timers.pop_due(now):
            if kind == GREET:
                waited = now - self._greeted[key]
                if key not in state.takers and waited < _GREET_UNTIL:
                    self._greet(key, now + waited + _GREET_AGAIN)
            elif kind == PULL:
                self._pulling.fire(key, now)
            elif kind == WANT:
                peer = state.wanted.pop(key, None)
                if peer in state.takers and key not in state.transfers:
                    state.send(peer, m.PieceGraft((m.PieceWant(key, 0),)))
            else:
                self._building.fire(key, now)
        return state.take_effects()

    def clear(self) -> None:
        """We left the topic: forget all but the ids."""
        state = self._state
        for table in (self._greeted, state.wanted, state.takers):
            table.clear()
        state.transfers.clear()
        state.trees.by_source.clear()
        state.timers.clear()
