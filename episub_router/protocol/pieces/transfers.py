"""Messages in pieces: those under way, and those that are whole and kept for others; bounded."""

from __future__ import annotations

import math

from episub_router.protocol.piece_messages import MAX_WANTS, Piece, Preamble
from episub_router.protocol.pieces.cutting import MAX_SIZE
from episub_router.protocol.plumtree.missing_messages import MAX_RETRANSMISSIONS
from episub_router.protocol.types import MessageId, PeerId, SourceId, Time
from episub_router.util.bounded import put_last

MAX_UNFINISHED = MAX_WANTS
"""Messages under way at a time; chosen: 64 of 1 MB fill the memory below."""

MAX_OF_ONE_SOURCE = 16
"""Unfinished messages of one source, and of one neighbour that announced them first. Chosen: a
quarter, so that four have to lie before there is no room for others."""

MAX_UNFINISHED_BYTES = 4 * MAX_SIZE
"""Announced bytes of all unfinished messages; half as many of one source, and of one neighbour."""

IDLE_AFTER = 1.0
"""Seconds without a piece after which a message gives way to others. Chosen: several times the way
through a thousand nodes; each node passes on no more made-up preambles than have room in that."""

MAX_KEPT_BYTES = 2 * MAX_SIZE
"""Bytes of whole messages that are kept for others; the oldest go first."""

MAX_KEPT = 1024
"""Likewise their number, which small ones would else multiply. Chosen: 22 a second for the 45 s
that each is kept."""

MAX_FORGOTTEN = 4096
"""Ids remembered of messages that were whole, or given up, and aren't kept any more."""

_GAP_GAIN = 1 / 8
"""As for smoothed round-trip times (RFC 6298)."""

_REORDERED = 1
"""Pieces by which one may come out of turn before it counts as lost. Chosen: they come in order."""

_ON_ITS_WAY = 0.3
"""Seconds; two round trips of the longest links."""


class Transfer:
    """One message, under way or whole. Masks have bit i set for piece i."""

    __slots__ = (
        "again", "announced_at", "first_bringer", "gap", "gaps_asked_at", "has", "have", "hops",
        "moved_at", "out_of_order", "pieces", "preamble", "pulled", "strikes", "unresponsive",
        "whole_at",
    )  # fmt: skip

    def __init__(self, preamble: Preamble, bringer: PeerId | None, hops: int, now: Time) -> None:
        self.preamble = preamble
        self.hops = hops
        self.first_bringer = bringer  # The neighbour that announced it first; None for our own
        self.announced_at = now
        self.pieces: list[Piece | None] = [None] * preamble.count
        self.have = 0
        self.has: dict[PeerId, int] = {}
        """What neighbours said to have of it, or will have: sent by us, or to us."""
        self.pulled: dict[PeerId, int] = {}
        """What was asked of which peer and hasn't come; 0 once all has, or others were asked."""
        self.again: dict[PeerId, int] = {}  # Pieces that neighbours asked for when they had them
        self.unresponsive: dict[PeerId, None] = {}  # Asked, and sent nothing since: asked last
        self.out_of_order: dict[int, Time] = {}  # When pieces came that others had overtaken
        self.moved_at = now  # When the last new piece came
        self.gap = 0.0  # Smoothed seconds between two pieces that came in turn; 0 before the second
        self.gaps_asked_at = now  # When the parent was last asked for what others had overtaken
        self.strikes = 0  # How often patience ran out since the last new piece
        self.whole_at: Time | None = None

    @property
    def everything(self) -> int:
        """The mask of all pieces."""
        return (1 << self.preamble.count) - 1

    @property
    def missing(self) -> int:
        """The mask of the pieces that aren't here."""
        return self.everything & ~self.have

    def add(self, piece: Piece, now: Time) -> None:
        """Keep `piece`, which is new and belongs here."""
        self.pieces[piece.index] = piece
        if self.have >> piece.index:
            self.out_of_order[piece.index] = now
        elif self.have:
            waited = now - self.moved_at
            self.gap += _GAP_GAIN * (waited - self.gap) if self.gap else waited
        self.have |= 1 << piece.index
        self.moved_at = now
        self.strikes = 0
        for peer in self.pulled:
            self.pulled[peer] &= ~(1 << piece.index)

    def skipped(self, index: int) -> int:
        """The pieces that should have come before piece `index`, and that nobody was asked for."""
        mask = self.missing & ((1 << max(0, index - _REORDERED)) - 1)
        for pulled in self.pulled.values():
            mask &= ~pulled
        return mask

    def on_its_way(self, peer: PeerId, now: Time) -> int:
        """The pieces that `peer` missed as we did, and that went there before it could ask."""
        late = [
            index for index, came_at in self.out_of_order.items() if now - came_at < _ON_ITS_WAY
        ]
        return mask_of(late) & self.has.get(peer, 0)

    def lacked_by(self, peer: PeerId) -> int:
        """The pieces that `peer` hasn't got, as far as we know, and that weren't sent to it."""
        return self.everything & ~self.has.get(peer, 0)

    def note_has(self, peer: PeerId, mask: int) -> None:
        """`peer` has the pieces in `mask`, or will have them."""
        self.has[peer] = self.has.get(peer, 0) | mask

    def note_lacks(self, peer: PeerId, mask: int) -> bool:
        """`peer` asked for the pieces in `mask`: what was sent to it was lost. False if it has
        asked for more than all of the message that often."""
        had = self.has.get(peer, 0)
        self.again[peer] = self.again.get(peer, 0) + (mask & had).bit_count()
        if self.again[peer] > MAX_RETRANSMISSIONS * self.preamble.count:
            return False
        self.has[peer] = had & ~mask
        return True

    def forget_peer(self, peer: PeerId) -> None:
        for table in (self.has, self.again, self.pulled, self.unresponsive):
            table.pop(peer, None)


class Transfers:
    """Every message in pieces that this node knows of, by id."""

    __slots__ = ("_forgotten", "_kept_bytes", "_unfinished", "_whole")

    def __init__(self) -> None:
        self._unfinished: dict[MessageId, Transfer] = {}
        self._whole: dict[MessageId, Transfer] = {}
        """In the order in which they became whole."""
        self._forgotten: dict[MessageId, bool] = {}
        """Whether each was given up."""
        self._kept_bytes = 0

    def __contains__(self, id: MessageId) -> bool:
        """Whether the message is under way, kept, or known to be over."""
        return id in self._unfinished or id in self._whole or id in self._forgotten

    def is_lost(self, id: MessageId) -> bool:
        """Whether the message was given up: its pieces don't come any more."""
        return self._forgotten.get(id, False)

    def get(self, id: MessageId) -> Transfer | None:
        """The message, if it is under way or kept."""
        return self._unfinished.get(id) or self._whole.get(id)

    def unfinished(self) -> list[Transfer]:
        """Those under way, the oldest first."""
        return [*self._unfinished.values()]

    def known(self) -> list[Transfer]:
        """Those that are kept, and those under way."""
        return [*self._whole.values(), *self._unfinished.values()]

    def of_source(self, source: SourceId) -> list[Transfer]:
        """Likewise, of one source."""
        return [transfer for transfer in self.known() if transfer.preamble.source == source]

    def is_under_way(self, source: SourceId) -> bool:
        """Whether any message of `source` isn't whole yet."""
        return any(transfer.preamble.source == source for transfer in self._unfinished.values())

    def make_room(self, preamble: Preamble, bringer: PeerId, now: Time) -> bool:
        """Whether one more message may be under way. Older ones without a piece give way to it, as
        a preamble costs its author nothing: within a share that is full, or of all."""
        while rivals := self._rivals(preamble, bringer):
            idle = (t for t in rivals if not t.have and t.announced_at <= now - IDLE_AFTER)
            first = next(idle, None)
            if first is None:
                return False
            del self._unfinished[first.preamble.id]
        return True

    def _rivals(self, preamble: Preamble, bringer: PeerId) -> list[Transfer]:
        """The messages that leave no room for this one, oldest first; none if there is room."""
        every = self.unfinished()
        of_one = MAX_OF_ONE_SOURCE, MAX_UNFINISHED_BYTES // 2
        shares = (
            ([t for t in every if t.preamble.source == preamble.source], *of_one),
            ([t for t in every if t.first_bringer == bringer], *of_one),
            (every, MAX_UNFINISHED, MAX_UNFINISHED_BYTES),
        )
        for share, most, most_bytes in shares:
            size = preamble.size + sum(transfer.preamble.size for transfer in share)
            if len(share) >= most or size > most_bytes:
                return share
        return []

    def add(self, transfer: Transfer) -> None:
        """A message is under way."""
        self._unfinished[transfer.preamble.id] = transfer

    def finish(self, transfer: Transfer, now: Time) -> None:
        """A message is whole: keep it for others, in place of older ones if need be."""
        self._unfinished.pop(transfer.preamble.id, None)
        transfer.whole_at = now
        self._whole[transfer.preamble.id] = transfer
        self._kept_bytes += transfer.preamble.size
        self.expire(-math.inf)

    def give_up(self, transfer: Transfer) -> None:
        """A message doesn't come."""
        del self._unfinished[transfer.preamble.id]
        put_last(self._forgotten, transfer.preamble.id, True, MAX_FORGOTTEN)

    def expire(self, before: Time) -> None:
        """Keep nothing that became whole before that time, nor more than the bounds."""
        while self._whole:
            id, transfer = next(iter(self._whole.items()))
            is_much = self._kept_bytes > MAX_KEPT_BYTES or len(self._whole) > MAX_KEPT
            if not is_much and transfer.whole_at is not None and transfer.whole_at > before:
                return
            del self._whole[id]
            self._kept_bytes -= transfer.preamble.size
            put_last(self._forgotten, id, False, MAX_FORGOTTEN)

    def clear(self) -> None:
        """Forget everything but the ids."""
        for transfer in self.unfinished():
            self.give_up(transfer)
        self.expire(math.inf)


def indices(mask: int) -> list[int]:
    """The bits that are set in `mask`, lowest first."""
    return [index for index in range(mask.bit_length()) if mask >> index & 1]


def mask_of(indices: list[int]) -> int:
    """The mask with these bits."""
    return sum(1 << index for index in indices)
