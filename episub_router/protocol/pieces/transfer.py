"""One message in pieces: what is here of it, what is asked for, and what was sent to which peer."""

from __future__ import annotations

from episub_router.protocol.piece_messages import Piece, Preamble
from episub_router.protocol.types import PeerId, Time

_GAP_GAIN = 1 / 8
"""As for smoothed round-trip times (RFC 6298)."""

_REORDERED = 2
"""Pieces by which one may come out of turn before it counts as lost. Ours: those that are passed on
come in the order in which they were sent."""

_ON_ITS_WAY = 0.3
"""Seconds; two round trips of the longest links."""


class Transfer:
    """One message, under way or whole. Masks have bit i set for piece i."""

    __slots__ = (
        "announced",
        "announced_at",
        "bytes_here",
        "first_bringer",
        "gap",
        "gaps_asked",
        "have",
        "hops",
        "late",
        "moved_at",
        "pieces",
        "preamble",
        "pulled",
        "pulled_at",
        "strikes",
        "taken",
        "vain",
        "whole_at",
    )

    def __init__(self, preamble: Preamble, bringer: PeerId | None, hops: int, now: Time) -> None:
        self.preamble = preamble
        self.hops = hops
        self.first_bringer = bringer
        """The neighbour that announced it first; None for our own."""
        self.announced: dict[PeerId, int] = {}
        """The neighbours that know of it, and the mask of what they said to have."""
        self.announced_at = now
        self.pieces: list[Piece | None] = [None] * preamble.count
        self.have = 0
        self.bytes_here = 0
        self.taken: dict[PeerId, int] = {}
        """What each neighbour has of it, as far as we know: sent by us or to us."""
        self.pulled: dict[PeerId, int] = {}
        """What was asked of which peer and hasn't come; 0 once all has, or others were asked."""
        self.pulled_at = now
        """When something was last asked for because none came."""
        self.vain: dict[PeerId, None] = {}
        """Those that were asked and sent nothing since: asked again after all others."""
        self.late: dict[int, Time] = {}
        """When pieces came that others had overtaken."""
        self.moved_at = now
        """When the last new piece came."""
        self.gap = 0.0
        """Smoothed seconds between two pieces that came in turn; 0 before the second."""
        self.gaps_asked: dict[int, Time] = {}
        """The pieces that the parent was asked for as others came after them, and when it was."""
        self.strikes = 0
        """How often patience ran out since the last new piece."""
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
            self.late[piece.index] = now
        elif self.have:
            waited = now - self.moved_at
            self.gap += _GAP_GAIN * (waited - self.gap) if self.gap else waited
        self.have |= 1 << piece.index
        self.bytes_here += piece.size
        self.moved_at = now
        self.strikes = 0

    def skipped(self, parent: PeerId, index: int, since: Time) -> int:
        """The pieces that should have come from `parent` before piece `index`, and that neither it
        was asked for `since` then nor anybody else."""
        mask = self.missing & ((1 << max(0, index - _REORDERED)) - 1)
        for peer, pulled in self.pulled.items():
            if peer != parent:
                mask &= ~pulled
        for other, asked_at in self.gaps_asked.items():
            if asked_at > since:
                mask &= ~(1 << other)
        return mask

    def on_its_way(self, peer: PeerId, now: Time) -> int:
        """The pieces that `peer` missed as we did, and that went there before it could ask."""
        mask = 0
        for index, came_at in self.late.items():
            if now - came_at < _ON_ITS_WAY:
                mask |= 1 << index
        return mask & self.taken.get(peer, 0)

    def lacked_by(self, peer: PeerId) -> int:
        """How many pieces `peer` hasn't got, as far as we know, and weren't sent to it."""
        return self.preamble.count - self.taken.get(peer, 0).bit_count()

    def note_taken(self, peer: PeerId, mask: int) -> None:
        """`peer` has the pieces in `mask`, or will have them."""
        self.taken[peer] = self.taken.get(peer, 0) | mask

    def forget_peer(self, peer: PeerId) -> None:
        self.announced.pop(peer, None)
        self.taken.pop(peer, None)
        self.pulled.pop(peer, None)
        self.vain.pop(peer, None)


def indices(mask: int) -> list[int]:
    """The bits that are set in `mask`, lowest first."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def highest_bits(mask: int, count: int) -> int:
    """The highest `count` bits that are set in `mask`."""
    return mask ^ lowest_bits(mask, max(0, mask.bit_count() - count))


def lowest_bits(mask: int, count: int) -> int:
    """The lowest `count` bits that are set in `mask`."""
    kept = 0
    for _ in range(count):
        lowest = mask & -mask
        if not lowest:
            break
        kept |= lowest
        mask ^= lowest
    return kept
