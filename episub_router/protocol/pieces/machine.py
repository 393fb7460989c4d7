"""The machine of large messages: takes preambles and pieces, checks, keeps and passes them on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from episub_router.protocol import piece_messages as m
from episub_router.protocol.effects import Assembled, DropReason, Effect
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.pieces.cutting import belongs
from episub_router.protocol.pieces.pulling import FIRST_PATIENCE, KEPT_FOR, Pulling, patience
from episub_router.protocol.pieces.state import (
    GREET,
    PULL,
    RECENT,
    WANT,
    Belongs,
    Charge,
    PiecesState,
)
from episub_router.protocol.pieces.transfers import IDLE_AFTER, MAX_UNFINISHED, Transfer
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, RttOf, Time
from episub_router.util.bounded import put_last

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
        "_building", "_greeted", "_pulling", "_state", "takers", "transfers", "trees",
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

    def __contains__(self, id: MessageId) -> bool:
        """Whether the message `id` came, or comes, in pieces, and wasn't given up."""
        return id in self.transfers and not self.transfers.is_lost(id)

    def publishes_to(self) -> list[PeerId]:
        """Those that the pieces of our own messages are pushed to."""
        return [child for tree in self.trees.values() if tree.own for child in tree.children]

    def more(self, id: MessageId, peer: PeerId) -> int:
        """How many pieces of the message `id` the neighbour `peer` lacks that weren't sent to it:
        none where the message is forgotten."""
        transfer = self.transfers.get(id)
        return 0 if transfer is None else transfer.lacked_by(peer).bit_count()

    def not_sent(self, piece: m.Piece, peer: PeerId) -> None:
        """There was no room for `piece` to `peer`, which lacks it."""
        transfer = self.transfers.get(piece.id)
        if transfer is not None and peer in transfer.has:
            transfer.has[peer] &= ~(1 << piece.index)

    def publish(self, preamble: m.Preamble, pieces: tuple[m.Piece, ...], now: Time) -> list[Effect]:
        """A message of our own: announce it to all, push it to our children."""
        state = self._state
        if preamble.id in state.transfers:
            return []
        own = Transfer(preamble, None, 0, now)
        for piece in pieces:
            own.add(piece, now)
        state.transfers.finish(own, now)
        tree = state.use_tree(preamble.source, now, own=True)
        for peer in state.takers:
            state.announce(own, peer)
        self._building.note_size(tree, preamble.size)
        if not tree.children:
            self._building.offer_places(tree)
        # One piece to each child, then the next, so that none waits for all of another's.
        for index in range(preamble.count):
            for child in tree.children:
                state.push(own, child, 1 << index)
        return state.take_effects()

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
            self._on_piece(peer, message, now)
        elif isinstance(message, m.PieceAnnounce):
            self._take_up(peer)
            self._on_announce(peer, message, now)
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

    # Preambles and pieces

    def _on_announce(self, peer: PeerId, message: m.PieceAnnounce, now: Time) -> None:
        """A neighbour has a message, or will have it: pass that on, and get it."""
        state, preamble = self._state, message.preamble
        transfers = state.transfers
        transfer = transfers.get(preamble.id)
        if transfer is None:
            if preamble.id in transfers:
                return
            if not transfers.make_room(preamble, peer, now):
                state.drop(peer, DropReason.PREAMBLE_REFUSED)
                self._want(peer, preamble.id, now)
                return
            transfer = Transfer(preamble, peer, message.hops, now)
            transfers.add(transfer)
            self._on_new(peer, transfer, now)
        elif replace(preamble, envelope=None) != replace(transfer.preamble, envelope=None):
            # A key and a signature may be written in several ways.
            state.drop(peer, DropReason.PREAMBLE_REFUSED)
            return
        tree = state.trees.get(preamble.source)
        if tree is not None and peer not in transfer.pulled:
            # The answer to a pull may be all that a peer says that knows of it from us.
            tree.announcers[peer] = None
        if message.hops <= transfer.hops and tree is not None:
            # It had it before us, as all that it may wait for: nobody waits in a cycle.
            tree.note_announcer(peer, now)
        transfer.note_has(peer, message.have & transfer.everything)
        if peer in transfer.pulled:
            transfer.pulled[peer] &= message.have  # The rest doesn't come: it waits itself.
        if message.have:
            transfer.unresponsive.pop(peer, None)

    def _on_new(self, peer: PeerId, transfer: Transfer, now: Time) -> None:
        state = self._state
        tree = state.use_tree(transfer.preamble.source, now)
        tree.announcers.clear()
        self._building.note_size(tree, transfer.preamble.size)
        # Children wait for it.
        for other in dict.fromkeys([*tree.children, *state.takers]):
            if other != peer:
                state.announce(transfer, other)
        tree.note_announcer(peer, now)
        self._building.seek(tree, now)
        state.look_after(transfer, now + FIRST_PATIENCE)

    def _want(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """`peer` has the message `id`, for which there was no room: ask for its preamble when
        others have had their time."""
        state = self._state
        dropped = put_last(state.wanted, id, peer, MAX_UNFINISHED)
        if dropped is not None:
            state.timers.cancel((WANT, dropped))
        state.timers.set_earliest((WANT, id), now + IDLE_AFTER)

    def _on_piece(self, peer: PeerId, piece: m.Piece, now: Time) -> None:
        """A piece: keep it if it is new and belongs to its message, and pass it on."""
        state, transfer = self._state, self._state.transfers.get(piece.id)
        if transfer is None:
            self._on_unknown(peer, piece.id, now)
            return
        if piece.root != transfer.preamble.root:
            # The author has signed two preambles: that is no fault of those that pass them on.
            state.drop(peer, DropReason.PREAMBLE_REFUSED)
            return
        bit = 1 << piece.index
        tree = state.trees.get(transfer.preamble.source)
        pushes = tree is not None and tree.parent == peer and not transfer.pulled.get(peer, 0) & bit
        if tree is not None and pushes:
            tree.pushed_at = now
        if transfer.have & bit:
            transfer.note_has(peer, bit)
            state.drop(peer, DropReason.PIECE_LATE)
            return
        if not state.belongs(transfer.preamble, piece):
            state.drop(peer, DropReason.PIECE_INVALID)
            state.charge(peer, now)
            return
        transfer.add(piece, now)
        transfer.note_has(peer, bit)
        transfer.unresponsive.pop(peer, None)
        if tree is not None:
            tree.carried = True
            for child in tree.children:
                state.push(transfer, child, bit)
        if pushes:
            self._pulling.ask_for_gaps(transfer, peer, piece.index, now)
        if not transfer.missing:
            transfer.unresponsive.clear()
            state.transfers.finish(transfer, now)
            state.timers.cancel((PULL, piece.id))
            self._building.judge_parent(transfer, now)
            pieces = tuple(piece for piece in transfer.pieces if piece is not None)
            state.effects.append(Assembled(transfer.preamble, pieces, peer))
        elif (tree is None or tree.parent is None) and not any(transfer.pulled.values()):
            state.look_after(transfer, now)  # Ask for the next ones.
        else:
            state.look_after(transfer, now + patience(transfer, now))

    def _on_unknown(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """A piece of a message that isn't under way: its preamble was lost, or gave way."""
        state, is_over = self._state, id in self._state.transfers
        state.drop(peer, DropReason.PIECE_LATE if is_over else DropReason.UNSOLICITED)
        if not is_over and state.wanted.get(id) != peer:
            self._want(peer, id, now)
            state.send(peer, m.PieceGraft((m.PieceWant(id, 0),)))

    # Neighbours

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

    # Timers

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
        for table in (self._greeted, state.wanted, state.takers, state.trees):
            table.clear()
        state.transfers.clear()
        state.timers.clear()
