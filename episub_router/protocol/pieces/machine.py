"""The machine of large messages: pieces along narrow trees, and pulled where one is missing."""

from __future__ import annotations

from episub_router.protocol.effects import DropReason, Effect
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceMessage,
    PieceOffer,
    Preamble,
)
from episub_router.protocol.pieces.cutting import belongs
from episub_router.protocol.pieces.narrow_tree import NarrowTrees
from episub_router.protocol.pieces.pulling import KEPT_FOR, Pulling
from episub_router.protocol.pieces.relay import Relay
from episub_router.protocol.pieces.state import (
    DEFER,
    GREET,
    PULL,
    RECENT,
    Belongs,
    Charge,
    PiecesState,
    nobody,
)
from episub_router.protocol.pieces.transfers import Transfers
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, RttOf, Time

_GREET_AGAIN = 5.0
"""Seconds until a neighbour that has not answered is greeted again; twice as long each time."""

_GREETINGS = 5
"""Greetings of one neighbour; one that answers none of them takes no pieces."""


class _Greeted:
    """When a neighbour was greeted first and last, and how often since its connection came."""

    __slots__ = ("first", "last", "tries")

    def __init__(self, now: Time) -> None:
        self.first = self.last = now
        self.tries = 0


class Pieces:
    """One node's part in one topic's large messages.

    Drive it with `publish`, `receive`, `on_neighbor_up`, `on_neighbor_down` and `handle_timer`; all
    return the effects in order. `rtt_of` knows the round-trip times of neighbours, `belongs` checks
    a piece against its preamble, `charge` is called with peers that send what no correct one passes
    on.
    """

    __slots__ = ("_building", "_greeted", "_pulling", "_relay", "_state")

    def __init__(
        self,
        params: BroadcastParams,
        rtt_of: RttOf,
        belongs: Belongs = belongs,
        charge: Charge = nobody,
    ) -> None:
        self._state = state = PiecesState(params, belongs, rtt_of, charge)
        self._greeted: dict[PeerId, _Greeted] = {}
        """Each neighbour, and when it was notified that we take pieces."""
        self._building = TreeBuilding(state)
        self._relay = Relay(state, self._building)
        self._pulling = Pulling(state, self._building)

    def __contains__(self, id: MessageId) -> bool:
        """Whether the message `id` came, or comes, in pieces, and wasn't given up."""
        transfers = self._state.transfers
        return id in transfers and not transfers.is_lost(id)

    @property
    def takers(self) -> dict[PeerId, None]:
        """Neighbours that take pieces; a read-only view."""
        return self._state.takers

    @property
    def distrusted(self) -> dict[PeerId, None]:
        """Neighbours that sent a bad piece, and are asked for nothing; a read-only view."""
        return self._state.distrusted

    @property
    def transfers(self) -> Transfers:
        """The messages under way and kept; a read-only view."""
        return self._state.transfers

    @property
    def trees(self) -> NarrowTrees:
        """The narrow trees; a read-only view."""
        return self._state.trees

    def publish(self, preamble: Preamble, pieces: tuple[Piece, ...], now: Time) -> list[Effect]:
        """Send a message of our own."""
        self._relay.publish(preamble, pieces, now)
        return self._state.take_effects()

    def publishes_to(self) -> list[PeerId]:
        """Those that the pieces of our own messages are pushed to."""
        own = (tree for _, tree in self._state.trees.items() if tree.own)
        return [child for tree in own for child in tree.children]

    def hops(self, id: MessageId) -> int:
        """Links that the preamble of `id` took to us; 1 where that is forgotten."""
        transfer = self._state.transfers.get(id)
        return 1 if transfer is None else transfer.hops

    def more(self, id: MessageId, peer: PeerId) -> int:
        """How many pieces of the message `id` the neighbour `peer` lacks that weren't sent to it:
        none where the message is forgotten."""
        transfer = self._state.transfers.get(id)
        return 0 if transfer is None else transfer.lacked_by(peer)

    def offer(self, id: MessageId, peer: PeerId) -> list[Effect]:
        """`peer` asked for the message `id` whole, and takes pieces: announce it."""
        transfer = self._state.transfers.get(id)
        if transfer is not None:
            self._state.announce(transfer, peer)
        return self._state.take_effects()

    def receive(self, peer: PeerId, message: PieceMessage, now: Time) -> list[Effect]:
        """Act on a message from `peer`, which has to be a neighbour."""
        state = self._state
        if peer not in self._greeted:
            state.drop(peer, DropReason.NOT_NEIGHBOR)
            return state.take_effects()
        if isinstance(message, Piece):
            self._relay.on_piece(peer, message, now)
        elif isinstance(message, PieceAnnounce):
            self._take_up(peer, now)
            self._relay.on_announce(peer, message, now)
            transfer = state.transfers.get(message.preamble.id)
            if transfer is not None and transfer.pulled.get(peer):
                self._pulling.on_progress_of(peer, transfer, now)
        elif isinstance(message, PieceOffer):
            is_greeting = not message.offers and not message.accepted
            lacks_ours = is_greeting and peer in state.takers
            if lacks_ours and now - self._greeted[peer].last >= _GREET_AGAIN / 2:
                self._greet(peer, now)
            self._take_up(peer, now)
            self._building.on_offer(peer, message, now)
        elif isinstance(message, PieceGraft):
            if message.source is None:
                self._pulling.on_wants(peer, message.wants, now)
            else:
                self._building.on_graft(peer, message.source, message.wants, now)
        else:
            self._building.on_prune(peer, message, now)
        return state.take_effects()

    def on_neighbor_up(self, peer: PeerId, now: Time) -> list[Effect]:
        """A new neighbour, or one to which messages may have been lost: it may take pieces."""
        self._greeted.setdefault(peer, _Greeted(now)).tries = 0
        self._greet(peer, now)
        return self._state.take_effects()

    def _greet(self, peer: PeerId, now: Time) -> None:
        """Notify `peer` that we take pieces: again later, as it can be lost where two connections
        replace each other, and at most `_GREETINGS` times."""
        greeted = self._greeted[peer]
        greeted.last = now
        if peer not in self._state.takers and greeted.tries < _GREETINGS - 1:
            self._state.timers.set((GREET, peer), now + _GREET_AGAIN * 2**greeted.tries)
            greeted.tries += 1
        self._building.greet(peer)

    def _take_up(self, peer: PeerId, now: Time) -> None:
        """`peer` takes pieces: it has missed what went out since its link came."""
        state = self._state
        if peer in state.takers:
            return
        self._state.timers.cancel((GREET, peer))
        since = self._greeted[peer].first - RECENT
        state.takers[peer] = None
        for transfer in (*state.transfers.whole(), *state.transfers.unfinished()):
            if transfer.whole_at is None or transfer.whole_at >= since:
                state.announce(transfer, peer)

    def on_neighbor_down(self, peer: PeerId, now: Time) -> list[Effect]:
        """A neighbour is gone: what was asked of it is asked of others at once."""
        state = self._state
        state.distrusted.pop(peer, None)
        self._greeted.pop(peer, None)
        self._state.timers.cancel((GREET, peer))
        if state.takers.pop(peer, 0) is None:
            for transfer in (*state.transfers.whole(), *state.transfers.unfinished()):
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
        self._state.transfers.expire(now - KEPT_FOR)
        for kind, key in self._state.timers.pop_due(now):
            if kind == GREET:
                self._greet(key, now)
            elif kind == DEFER:
                self._relay.retry(key, now)
            elif kind == PULL:
                self._pulling.fire(key, now)
            else:
                self._building.fire(kind, key, now)
        return self._state.take_effects()

    def clear(self) -> None:
        """We left the topic: forget all but the ids."""
        state = self._state
        self._greeted.clear()
        state.deferred.clear()
        state.preambles_asked.clear()
        state.takers.clear()
        state.distrusted.clear()
        state.transfers.clear()
        state.trees.clear()
        state.timers.clear()
