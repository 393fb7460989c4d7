"""Preambles and pieces, as they come: checked, kept, and passed on at once."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol.effects import Assembled, DropReason
from episub_router.protocol.messages import MAX_HOPS
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceWant,
    Preamble,
)
from episub_router.protocol.pieces.cutting import is_sound
from episub_router.protocol.pieces.pulling import FIRST_PATIENCE, Pulling, patience
from episub_router.protocol.pieces.state import PULL, WANT, PiecesState
from episub_router.protocol.pieces.transfers import IDLE_AFTER, MAX_UNFINISHED, Transfer
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, Time
from episub_router.util.bounded import put_last


class Relay:
    """Takes announcements and pieces, and passes both on."""

    __slots__ = ("_building", "_pulling", "_state")

    def __init__(self, state: PiecesState, building: TreeBuilding, pulling: Pulling) -> None:
        self._state = state
        self._building = building
        self._pulling = pulling

    def publish(self, preamble: Preamble, pieces: tuple[Piece, ...], now: Time) -> None:
        """A message of our own: announce it to all, push it to our children."""
        state, id = self._state, preamble.id
        if id in state.transfers:
            return
        own = Transfer(preamble, None, 0, now)
        for piece in pieces:
            own.add(piece, now)
        state.transfers.finish(own, now)
        tree = state.trees.use(preamble.source, now, own=True)
        for peer in state.takers:
            state.announce(own, peer)
        self._building.note_size(tree, preamble.size)
        if not tree.children:
            self._building.offer_places(tree)
        # One piece to each child, then the next, so that none waits for all of another's.
        for index in range(preamble.count):
            for child in tree.children:
                state.push(own, child, 1 << index)

    def on_announce(self, peer: PeerId, message: PieceAnnounce, now: Time) -> None:
        """A neighbour has a message, or will have it: pass that on, and get it."""
        state, preamble = self._state, message.preamble
        transfers, source = state.transfers, preamble.source
        transfer = transfers.get(preamble.id)
        if transfer is None:
            if preamble.id in transfers:
                return
            sound = is_sound(preamble)
            if not sound or not transfers.make_room(preamble, peer, now):
                state.drop(peer, DropReason.PREAMBLE_REFUSED)
                self._want(peer, preamble.id, now) if sound else state.charge(peer, now)
                return
            transfer = Transfer(preamble, peer, min(max(1, message.hops), MAX_HOPS), now)
            transfers.add(transfer)
            self._on_new(peer, transfer, now)
        elif replace(preamble, envelope=None) != replace(transfer.preamble, envelope=None):
            # A key and a signature may be written in several ways.
            state.drop(peer, DropReason.PREAMBLE_REFUSED)
            return
        tree = state.trees.get(source)
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
            transfer.vain.pop(peer, None)

    def _on_new(self, peer: PeerId, transfer: Transfer, now: Time) -> None:
        state, source = self._state, transfer.preamble.source
        tree = state.trees.use(source, now)
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

    def on_piece(self, peer: PeerId, piece: Piece, now: Time) -> None:
        """A piece: keep it if it is new and belongs to its message, and pass it on."""
        state, transfer = self._state, self._state.transfers.get(piece.id)
        if transfer is None:
            self._on_unknown(peer, piece.id, now)
            return
        if piece.root != transfer.preamble.root:
            # The author has signed two preambles: that is no fault of those that pass them on.
            state.drop(peer, DropReason.PREAMBLE_REFUSED)
            return
        bit = 1 << max(0, piece.index)
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
        transfer.vain.pop(peer, None)
        if tree is not None:
            tree.used_at, tree.carried = now, True
            for child in tree.children:
                state.push(transfer, child, bit)
        if pushes:
            self._pulling.ask_for_gaps(transfer, peer, piece.index, now)
        if not transfer.missing:
            self._finish(peer, transfer, now)
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
            state.send(peer, PieceGraft((PieceWant(id, 0),)))

    def _finish(self, peer: PeerId, transfer: Transfer, now: Time) -> None:
        transfer.vain.clear()
        self._state.transfers.finish(transfer, now)
        self._state.timers.cancel((PULL, transfer.preamble.id))
        self._building.judge_parent(transfer, now)
        pieces = tuple(piece for piece in transfer.pieces if piece is not None)
        whole = Assembled(transfer.preamble, pieces, peer)
        self._state.effects.append(whole)
