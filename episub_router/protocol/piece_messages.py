"""The messages by which large payloads travel in pieces (beyond the specification).

A preamble says what is coming; pieces follow along a narrow tree of their source, each with the
proof that it belongs to the preamble.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from episub_router.protocol.types import MessageId, PeerId, SourceId

MAX_PIECES = 512
"""Pieces of one message at most; chosen: a mask of 64 bytes."""

MAX_WANTS = 64
"""Messages named in one PIECEGRAFT at most: those that can be under way."""

MAX_NAMED = 8
"""Children named in one PIECEPRUNE at most; trees of pieces are narrower."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """What is known of a message before its pieces.

    `size` and `piece_size` are in bytes, `root` is the root of the Merkle tree over the pieces
    (`pieces.merkle`). `envelope` is the driver's: the author and its signature over all the
    others, which the driver has checked before it passes the preamble in.
    """

    id: MessageId
    source: SourceId
    size: int
    piece_size: int
    root: bytes
    envelope: object = None

    @property
    def count(self) -> int:
        """The number of pieces."""
        return -(-self.size // self.piece_size)

    def length(self, index: int) -> int:
        """Bytes of the piece `index`."""
        return min(self.piece_size, self.size - index * self.piece_size)


@dataclass(frozen=True, slots=True)
class Piece:
    """PIECE: one piece of the message `id` whose preamble has this `root`. `size` is its bytes,
    also where `data` is left out."""

    id: MessageId
    root: bytes
    index: int
    data: bytes
    proof: tuple[bytes, ...]
    size: int


@dataclass(frozen=True, slots=True)
class PieceAnnounce:
    """PIECEANNOUNCE: a message comes in pieces, of which the sender has those in the bit mask
    `have`. `hops` counts the links from the source to the receiver, 1 on the first."""

    preamble: Preamble
    have: int
    hops: int


class TreeOffer(NamedTuple):
    """A place in the narrow tree of `source` below a node of this `rank`: roughly the milliseconds
    from the source along the tree."""

    source: SourceId
    rank: int


@dataclass(frozen=True, slots=True)
class PieceOffer:
    """PIECEOFFER: the sender takes pieces, and has places in these trees.

    `accepted`: the receiver asked and is its child now.
    """

    offers: tuple[TreeOffer, ...] = ()
    accepted: bool = False


class PieceWant(NamedTuple):
    """Pieces, as a bit mask, that are missing of the message `id`."""

    id: MessageId
    missing: int


@dataclass(frozen=True, slots=True)
class PieceGraft:
    """PIECEGRAFT: send these pieces; with `source`, take the sender as a child in that tree, and
    push all pieces of the source from now on."""

    wants: tuple[PieceWant, ...] = ()
    source: SourceId | None = None


@dataclass(frozen=True, slots=True)
class PiecePrune:
    """PIECEPRUNE: the sender isn't the receiver's parent, or no longer its child, in the tree of
    `source`. `instead` are children of the sender that may have room."""

    source: SourceId
    instead: tuple[PeerId, ...] = ()


PieceMessage: TypeAlias = Piece | PieceAnnounce | PieceOffer | PieceGraft | PiecePrune

PIECE_MESSAGES = (Piece, PieceAnnounce, PieceOffer, PieceGraft, PiecePrune)
"""Those of `PieceMessage`, for `isinstance`."""
