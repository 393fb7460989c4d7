"""Missing pieces: asked of the parent first, then of all neighbours that may have them.

Patience runs out where no new piece comes for some usual times between two. A message that nobody
has within a bound is given up.
"""

from __future__ import annotations

from episub_router.protocol.effects import DropReason
from episub_router.protocol.piece_messages import MAX_WANTS, PieceWant
from episub_router.protocol.pieces.relay import PIECES_AT_ONCE, patience
from episub_router.protocol.pieces.state import PULL, PiecesState
from episub_router.protocol.pieces.transfer import Transfer, lowest_bits
from episub_router.protocol.pieces.tree_building import TreeBuilding
from episub_router.protocol.types import MessageId, PeerId, SourceId, Time

GIVE_UP_AFTER = 20.0
"""Seconds without a new piece after which a message is given up. Ours: several times the longest
patience, so that each neighbour was asked."""

EMPTY_AFTER = 10.0
"""Likewise where not one piece has come: a preamble costs its author nothing."""

SLOWEST = 16 * 1024
"""Bytes a second that a message comes at, or it is given up: what a slow drip can't hold for
long."""

_AT_ONCE = 3
"""Neighbours asked beside each other."""

_AGAIN_AFTER = 0.05
"""Seconds after which others are asked where all that were say that they wait themselves. Ours:
half a usual round trip; over short links nodes that all wait would else ask each other a thousand
times a second. Measured, 120 nodes, 10 to 1,000 Mbit/s, a source with 10: p50 3.8 s, as without it;
with 0.3, 4.6."""

KEPT_FOR = 45.0
"""Seconds that a whole message is kept for others; `cache_ttl`'s default."""


class Pulling:
    """Asks for missing pieces, and answers those that ask."""

    __slots__ = ("_building", "_state")

    def __init__(self, state: PiecesState, building: TreeBuilding) -> None:
        self._state = state
        self._building = building

    def fire(self, id: MessageId, now: Time) -> None:
        """Nothing came of the message `id` for as long as its patience lasts."""
        transfers = self._state.transfers
        transfer = transfers.get(id)
        if transfer is None or not transfers.is_unfinished(id):
            return
        if self._is_hopeless(transfer, now):
            transfers.give_up(transfer)
            self._state.drop(transfer.first_bringer, DropReason.MESSAGE_LOST)
        else:
            self._pull(transfer, now)

    def _is_hopeless(self, transfer: Transfer, now: Time) -> bool:
        waited = GIVE_UP_AFTER if transfer.have else EMPTY_AFTER
        longest = GIVE_UP_AFTER + transfer.preamble.size / SLOWEST
        return now - transfer.moved_at >= waited or now - transfer.announced_at >= longest

    def _pull(self, transfer: Transfer, now: Time) -> None:
        state, source = self._state, transfer.preamble.source
        tree = state.trees.use(source, now)
        strike = transfer.strikes
        transfer.strikes += 1
        unanswered = [peer for peer, mask in transfer.pulled.items() if mask]
        transfer.vain.update(dict.fromkeys(unanswered))
        transfer.pulled = dict.fromkeys(transfer.pulled, 0)
        transfer.pulled_at = now
        state.look_after(transfer, now + patience(transfer))
        parent = tree.parent
        if parent is not None and strike == 0:
            # What was lost on the way; or it says what it has, if it is waiting itself.
            state.ask(transfer, parent, transfer.missing)
            wait = max(patience(transfer), state.round_trips(parent, 2))
            state.look_after(transfer, now + wait)
            return
        if parent in unanswered and self._is_silent(parent, source):
            self._building.leave_failed_parent(source, tree, now)
        elif parent is not None and strike == 2:
            self._building.leave_parent(source, tree, now)
        self._building.seek(source, tree, now)
        self._ask_several(transfer, strike)

    def _is_silent(self, parent: PeerId, source: SourceId) -> bool:
        """Whether `parent` has neither announced nor brought anything of what is under way."""
        return not any(
            parent in transfer.announced or transfer.taken.get(parent)
            for transfer in self._state.transfers.unfinished()
            if transfer.preamble.source == source
        )

    def _ask_several(self, transfer: Transfer, turn: int) -> None:
        """Ask some neighbours for different pieces each, others at each `turn`."""
        state = self._state
        givers = state.givers
        known = [peer for peer in transfer.announced if peer in givers]
        # The others know of it from us, and announce nothing when they get it elsewhere.
        known += [peer for peer in givers if peer not in transfer.announced]
        # Those that said to have what is missing, then in turn; then those that said nothing, which
        # may never answer; those that were asked in vain last.
        shift = turn % len(known) if known else 0
        known = known[shift:] + known[:shift]
        missing = transfer.missing
        has_some = {peer: bool(transfer.announced.get(peer, 0) & missing) for peer in known}
        announced, vain = transfer.announced, transfer.vain
        known.sort(key=lambda peer: (peer in vain, peer not in announced, not has_some[peer]))
        left = missing
        for peer in known[:_AT_ONCE]:
            has = transfer.announced.get(peer, 0) & left
            asked = lowest_bits(has or left, PIECES_AT_ONCE)
            if asked:
                state.ask(transfer, peer, asked)
                left &= ~asked

    def on_wants(self, peer: PeerId, wants: tuple[PieceWant, ...], now: Time) -> None:
        """`peer` asks for pieces: send those that are here, and say what is if some aren't."""
        state = self._state
        for id, mask in wants[:MAX_WANTS]:
            transfer = state.transfers.get(id)
            if transfer is None:
                state.drop(peer, DropReason.GRAFT_NOT_CACHED)
                continue
            mask &= transfer.everything
            if mask & ~transfer.have or not mask:
                state.announce(transfer, peer)
            # Asked for again, so it was lost.
            mask &= ~transfer.on_its_way(peer, now)
            transfer.taken[peer] = transfer.taken.get(peer, 0) & ~mask
            state.push(transfer, peer, mask)

    def on_progress_of(self, peer: PeerId, transfer: Transfer, now: Time) -> None:
        """`peer`, which we asked, has said what it has: nothing for us, if it waits itself."""
        if not transfer.missing:
            return
        has = transfer.pulled[peer] & transfer.announced.get(peer, 0)
        transfer.pulled[peer] = has  # Those are on their way.
        tree = self._state.trees.get(transfer.preamble.source)
        if has:
            return
        if tree is not None and tree.parent == peer and transfer.strikes <= 1:
            # The gap is further up, and those next to it fill it.
            if transfer.strikes == 1:
                self._state.look_after(transfer, now + patience(transfer))
        elif not any(transfer.pulled.values()):
            again = max(now, transfer.pulled_at + _AGAIN_AFTER)
            self._state.timers.set_earliest((PULL, transfer.preamble.id), again)
