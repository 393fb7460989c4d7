"""Missing pieces: asked of the parent first, then of all; given up where nobody has them."""

from __future__ import annotations

from collections.abc import Sequence

from episub_router.protocol.effects import DropReason
from episub_router.protocol.piece_messages import PieceWant
from episub_router.protocol.pieces.state import PiecesState
from episub_router.protocol.pieces.transfers import Transfer, indices, mask_of
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, Time

GIVE_UP_AFTER = 20.0
"""Seconds without a new piece after which a message is given up. Chosen: several times the longest
patience, so that each neighbour was asked."""

EMPTY_AFTER = 10.0
"""Likewise where not one piece has come: a preamble costs its author nothing."""

SLOWEST = 16 * 1024
"""Bytes a second that a message comes at, or it is given up: what a slow drip can't hold for
long."""

_PIECES_AT_ONCE, _AT_ONCE = 16, 3
"""Pieces asked of one neighbour at a time, and neighbours asked beside each other."""

KEPT_FOR = 45.0
"""Seconds that a whole message is kept for others; `cache_ttl`'s default."""

_GAPS = 3
_LEAST_PATIENCE = 0.15
"""Patience in usual times between two pieces, and in seconds at least. Measured, 100 nodes, 20
Mbit/s, with 5: where 5 % of frames are lost p99 is 2.5 s in place of 2.1, and where five messages
come at once 4 % fewer bytes are sent."""

_MOST_PATIENCE = 3.0
"""Seconds."""

FIRST_PATIENCE = 1.0
"""Seconds that the first two pieces may take, before their pace is known. Chosen: several times the
way from a source through a thousand nodes."""

OVERDUE = 2.5
"""Seconds since a message was announced from which it is slow, and asked of others than the parent
at once. Measured, 100 nodes, five messages of 1 MB at once over 20 Mbit/s: they come in 2.0 s, and
p99 is a seventh longer where what is slow is asked of others from the beginning."""


def patience(transfer: Transfer, now: Time) -> float:
    """Seconds that the next piece may take; twice as long after each time that none came, as hosts
    that are all behind would else ask each other for what is on its way."""
    gaps = 0.0 if now - transfer.announced_at >= OVERDUE else _GAPS * transfer.gap
    usual = max(gaps, _LEAST_PATIENCE)
    if not transfer.gap and not transfer.strikes:
        usual = FIRST_PATIENCE
    doublings = min(max(0, transfer.strikes - 1), 5)
    return min(usual * float(1 << doublings), _MOST_PATIENCE)


class Pulling:
    """Asks for missing pieces, and answers those that ask."""

    __slots__ = ("_building", "_state")

    def __init__(self, state: PiecesState, building: TreeBuilding) -> None:
        self._state = state
        self._building = building

    def fire(self, id: MessageId, now: Time) -> None:
        """Nothing came of the message `id` for as long as its patience lasts."""
        state, transfer = self._state, self._state.transfers.get(id)
        if transfer is None or transfer.whole_at is not None:
            return
        waited = GIVE_UP_AFTER if transfer.have else EMPTY_AFTER
        longest = GIVE_UP_AFTER + transfer.preamble.size / SLOWEST
        if now - transfer.moved_at >= waited or now - transfer.announced_at >= longest:
            state.transfers.give_up(transfer)
            state.drop(transfer.first_bringer, DropReason.MESSAGE_LOST)
            return
        source = transfer.preamble.source
        tree = state.use_tree(source, now)
        parent, strike = tree.parent, transfer.strikes
        transfer.strikes += 1
        unanswered = [peer for peer, mask in transfer.pulled.items() if mask]
        transfer.unresponsive.update(dict.fromkeys(unanswered))
        transfer.pulled = dict.fromkeys(transfer.pulled, 0)
        wait, late = patience(transfer, now), now - transfer.announced_at >= OVERDUE
        if parent is not None and strike == 0 and not late:
            # What was lost on the way; or it says what it has, if it is waiting itself.
            state.ask(transfer, parent, transfer.missing)
            wait = max(wait, 2 * state.rtt_of(parent))
        else:
            if parent is not None and (parent in unanswered or strike == 2):
                failed = parent in unanswered and tree.pushed_at < transfer.announced_at
                self._building.leave_parent(tree, now, failed=failed)
            self._building.seek(tree, now)
            self._ask_several(transfer, late)
        state.look_after(transfer, now + wait)

    def _ask_several(self, transfer: Transfer, late: bool) -> None:
        """Ask some neighbours for different pieces each: first those that said to have what is
        missing, then those that said nothing, which may never answer; unresponsive ones last."""
        has, left = transfer.has, transfer.missing

        def despair(peer: PeerId) -> tuple[bool, bool, bool]:
            return (
                peer in transfer.unresponsive,
                peer not in has,
                not has.get(peer, 0) & transfer.missing,
            )

        for peer in sorted(self._state.takers, key=despair)[:_AT_ONCE]:
            pieces = indices(has.get(peer, 0) & left or left)
            if pieces:
                # A slow parent goes on with the first ones.
                asked = mask_of(pieces[-_PIECES_AT_ONCE:] if late else pieces[:_PIECES_AT_ONCE])
                self._state.ask(transfer, peer, asked)
                left &= ~asked

    def ask_for_gaps(self, transfer: Transfer, parent: PeerId, index: int, now: Time) -> None:
        """Ask `parent` for what should have come before piece `index`: once more where the request
        or the answer to it was lost, too."""
        if now - transfer.gaps_asked_at > patience(transfer, now):
            transfer.pulled[parent] = 0
        mask = transfer.skipped(index)
        if mask:
            transfer.gaps_asked_at = now
            self._state.ask(transfer, parent, mask)

    def on_wants(self, peer: PeerId, wants: Sequence[PieceWant], now: Time) -> None:
        """`peer` asks for pieces: send those that are here, and say what is if some aren't."""
        state = self._state
        for id, mask in wants:
            transfer = state.transfers.get(id)
            if transfer is None:
                state.drop(peer, DropReason.GRAFT_NOT_CACHED)
                continue
            mask &= transfer.everything
            if mask & ~transfer.have or not mask:
                state.announce(transfer, peer)
            mask &= ~transfer.on_its_way(peer, now)
            if transfer.note_lacks(peer, mask):
                state.push(transfer, peer, mask)
            else:
                state.drop(peer, DropReason.GRAFT_REPEATED)
