"""Preambles and pieces, as they come: checked, kept, and passed on at once."""

from __future__ import annotations

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
from episub_router.protocol.pieces.state import DEFER, PULL, PiecesState
from episub_router.protocol.pieces.transfer import Transfer, highest_bits, indices
from episub_router.protocol.pieces.transfers import IDLE_AFTER, MAX_UNFINISHED
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, Time
from episub_router.util.bounded import put_last

FIRST_PATIENCE = 1.0
"""Seconds that the first two pieces may take, before their pace is known. Ours: several times the
way from a source through a thousand nodes."""

PIECES_AT_ONCE = 16
"""Pieces asked of one neighbour at a time."""

OVERDUE = 2.5
SLOW_GAP = 0.1
"""Seconds since a message was announced, and between two pieces of it, from which its parent is
slow. Measured, 100 nodes, five messages of 1 MB at once over 20 Mbit/s: they come in 2.0 s, and p99
is a seventh longer where what is slow is asked of others from the beginning."""


class Relay:
    """Takes announcements and pieces, and passes both on."""

    __slots__ = ("_building", "_state")

    def __init__(self, state: PiecesState, building: TreeBuilding) -> None:
        self._state = state
        self._building = building

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
        self._building.note_size(preamble.source, tree, preamble.size, now)
        if not tree.children:
            self._building.offer_places(preamble.source, tree)
        # One piece to each child, then the next, so that none waits for all of another's.
        for index in range(preamble.count):
            for child in tree.children:
                state.push(own, child, 1 << index)

    def on_announce(self, peer: PeerId, message: PieceAnnounce, now: Time) -> None:
        """A neighbour has a message, or will have it: pass that on, and get it."""
        state, preamble = self._state, message.preamble
        transfers = state.transfers
        transfer = transfers.get(preamble.id)
        if transfer is None:
            if preamble.id in transfers:
                return
            sound = is_sound(preamble)
            if not sound or not transfers.make_room(preamble, peer, now):
                state.drop(peer, DropReason.PREAMBLE_REFUSED)
                if sound:
                    self._defer(peer, message, now)
                else:
                    state.charge(peer, now)
                return
            transfer = Transfer(preamble, peer, min(max(1, message.hops), MAX_HOPS), now)
            transfers.add(transfer)
            transfer.announced[peer] = message.have
            self._on_new(peer, transfer, now)
        elif not transfer.preamble.is_same(preamble):
            state.drop(peer, DropReason.PREAMBLE_REFUSED)
            return
        tree = state.trees.get(preamble.source)
        if tree is not None and peer not in transfer.pulled:
            # The answer to a pull may be all that a peer says that knows of it from us.
            tree.announcers[peer] = None
        if message.hops <= transfer.hops:
            # It had it before us, as all that it may wait for: nobody waits in a cycle.
            self._building.note_bringer(peer, preamble.source)
        transfer.announced[peer] = message.have & transfer.everything
        if message.have:
            transfer.vain.pop(peer, None)
        transfer.note_taken(peer, transfer.announced[peer])

    def _on_new(self, peer: PeerId, transfer: Transfer, now: Time) -> None:
        state, source = self._state, transfer.preamble.source
        tree = state.trees.use(source, now)
        tree.announcers.clear()
        self._building.note_size(source, tree, transfer.preamble.size, now)
        # Children wait for it.
        others = dict.fromkeys([*tree.children, *state.takers])
        for other in others:
            if other != peer:
                state.announce(transfer, other)
        if not tree.stands:
            if tree.asking is None:
                tree.refused.clear()
            self._building.note_bringer(peer, source)
            self._building.seek(source, tree, now)
        state.look_after(transfer, now + FIRST_PATIENCE)

    def on_piece(self, peer: PeerId, piece: Piece, now: Time) -> None:
        """A piece: keep it if it is new and belongs to its message, and pass it on."""
        state = self._state
        if peer in state.distrusted:
            state.drop(peer, DropReason.PIECE_INVALID)
            return
        transfer = state.transfers.get(piece.id)
        if transfer is None:
            known = piece.id in state.transfers
            state.drop(peer, DropReason.PIECE_LATE if known else DropReason.UNSOLICITED)
            if not known:
                self._ask_for_preamble(peer, piece.id)
            return
        if piece.root != transfer.preamble.root:
            # The author has signed two preambles: that is no fault of those that pass them on.
            state.drop(peer, DropReason.PREAMBLE_REFUSED)
            return
        if not 0 <= piece.index < transfer.preamble.count:
            state.drop(peer, DropReason.PIECE_INVALID)
            state.charge(peer, now)
            return
        bit = 1 << piece.index
        pulled = transfer.pulled.get(peer, 0)
        tree = state.trees.get(transfer.preamble.source)
        pushes = tree is not None and peer in (tree.parent, tree.asking, tree.former)
        asked = peer in transfer.pulled
        if not pushes and not asked:
            known = bool(transfer.have & bit)
            state.drop(peer, DropReason.PIECE_LATE if known else DropReason.UNSOLICITED)
            return
        is_slow = False
        if tree is not None and tree.parent == peer and not pulled & bit:
            is_overdue = now - transfer.announced_at >= OVERDUE and transfer.have != 0
            is_slow = is_overdue and now - tree.pushed_at >= SLOW_GAP
            tree.pushed_at = now
        if transfer.have & bit:
            transfer.note_taken(peer, bit)
            state.drop(peer, DropReason.PIECE_LATE)
            return
        if not state.belongs(transfer.preamble, piece):
            state.drop(peer, DropReason.PIECE_INVALID)
            state.charge(peer, now)
            state.distrusted[peer] = None
            self._building.leave(peer, now)
            self._pull_elsewhere(peer, now)
            return
        if tree is not None and tree.asking == peer and not asked:
            self._building.note_pushed(transfer.preamble.source, tree, peer, now)
        transfer.add(piece, now)
        transfer.note_taken(peer, bit)
        transfer.vain.pop(peer, None)
        for other, mask in transfer.pulled.items():
            transfer.pulled[other] = mask & ~bit
        if tree is not None:
            tree.used_at = now
            tree.carried = True
            for child in tree.children:
                state.push(transfer, child, bit)
            if tree.parent == peer and not pulled & bit:
                self._ask_for_gaps(transfer, peer, piece.index, now)
        if is_slow:
            self._ask_beside(transfer, peer)
        if not transfer.missing:
            self._finish(peer, transfer, now)
        elif (tree is None or tree.parent is None) and not any(transfer.pulled.values()):
            state.look_after(transfer, now)  # Ask for the next ones.
        else:
            state.look_after(transfer, now + patience(transfer))

    def _defer(self, peer: PeerId, message: PieceAnnounce, now: Time) -> None:
        """There is no room for a message: see again when others have had their time."""
        state, id = self._state, message.preamble.id
        dropped = put_last(state.deferred, id, (peer, message), MAX_UNFINISHED)
        if dropped is not None:
            state.timers.cancel((DEFER, dropped))
        state.timers.set((DEFER, id), now + IDLE_AFTER)

    def retry(self, id: MessageId, now: Time) -> None:
        """There may be room for the message `id` now."""
        state = self._state
        peer, message = state.deferred.pop(id)
        transfer = state.transfers.get(id)
        # What it has announced since is newer.
        if peer in state.takers and (transfer is None or peer not in transfer.announced):
            self.on_announce(peer, message, now)

    def _ask_for_preamble(self, peer: PeerId, id: MessageId) -> None:
        """`peer` pushes a message that isn't known here: its preamble was lost, or gave way."""
        asked = self._state.preambles_asked
        if asked.get(id) != peer:
            put_last(asked, id, peer, MAX_UNFINISHED)
            self._state.send(peer, PieceGraft((PieceWant(id, 0),)))

    def _ask_beside(self, transfer: Transfer, parent: PeerId) -> None:
        """`parent` is slow: ask a neighbour that has all pieces for the last ones, or the next one
        that announced the message what it has."""
        state = self._state
        if any(transfer.pulled.values()) or not transfer.missing:
            return
        others = [p for p in transfer.announced if p != parent and p not in transfer.vain]
        others = [peer for peer in others if peer not in state.distrusted]
        if not others:
            return
        has = transfer.announced
        best = next((peer for peer in others if has[peer] == transfer.everything), None)
        asked = others[0] if best is None else best
        transfer.vain[asked] = None  # Until it sends something.
        if best is None:
            state.send(asked, PieceGraft((PieceWant(transfer.preamble.id, 0),)))
        else:
            state.ask(transfer, asked, highest_bits(transfer.missing, PIECES_AT_ONCE))

    def _ask_for_gaps(self, transfer: Transfer, parent: PeerId, index: int, now: Time) -> None:
        """Ask `parent` for what should have come before piece `index`: once more where the request
        or the answer to it was lost, too."""
        mask = transfer.skipped(parent, index, now - patience(transfer))
        if mask:
            transfer.gaps_asked.update(dict.fromkeys(indices(mask), now))
            self._state.ask(transfer, parent, mask)

    def _pull_elsewhere(self, peer: PeerId, now: Time) -> None:
        """What was asked of `peer` is asked of others at once."""
        for transfer in self._state.transfers.unfinished():
            if transfer.pulled.pop(peer, 0):
                self._state.look_after(transfer, now)

    def _finish(self, peer: PeerId, transfer: Transfer, now: Time) -> None:
        transfer.pulled = dict.fromkeys(transfer.pulled, 0)  # Answers may still come.
        transfer.gaps_asked.clear()
        transfer.vain.clear()
        self._state.transfers.finish(transfer, now)
        self._state.timers.cancel((PULL, transfer.preamble.id))
        self._building.judge_parent(transfer, now)
        pieces = tuple(piece for piece in transfer.pieces if piece is not None)
        whole = Assembled(transfer.preamble, pieces, peer)
        self._state.effects.append(whole)


_LEAST_PATIENCE = 0.3
"""Seconds; two round trips of the longest links."""

_MOST_PATIENCE = 3.0
"""Seconds."""

_MOST_DOUBLINGS = 4
"""Of the least patience that exceed the most."""

_GAPS = 10
"""Patience in usual times between two pieces. Ours: turns among as many messages as an uplink
carries change how often one gets its turn."""


def patience(transfer: Transfer) -> float:
    """Seconds that the next piece may take; twice as long after each time that none came, as hosts
    that are all behind would else ask each other for what is on its way."""
    usual = max(_GAPS * transfer.gap, _LEAST_PATIENCE)
    if not transfer.gap and not transfer.strikes:
        usual = FIRST_PATIENCE
    doublings = min(max(0, transfer.strikes - 1), _MOST_DOUBLINGS)
    return min(usual * float(1 << doublings), _MOST_PATIENCE)
