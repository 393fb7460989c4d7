"""The messages of `protocol.piece_messages` in a frame: written, and read with suspicion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceMessage,
    PieceOffer,
    PiecePrune,
    PieceWant,
    Preamble,
    TreeOffer,
)
from episub_router.protocol.pieces.cutting import HASH_BYTES, is_sound
from episub_router.wire.authorship import Authorship, needed_key
from episub_router.wire.frame import PartDropped, WireFault
from episub_router.wire.limits import WireLimits
from episub_router.wire.source import id_bytes, source_bytes, source_id

_T = TypeVar("_T")

_MOST_HASHES = 9
"""In a proof: levels of a tree of 512 pieces."""


class PartReader(Protocol):
    """What reads one frame. Its methods raise PartDropped, but for `each`, which counts that."""

    limits: WireLimits

    def each(
        self, items: Any, read: Callable[[Any], _T], bound: int, excess: WireFault
    ) -> Iterator[_T]: ...

    def peer_id(self, value: bytes) -> bytes: ...

    def message_id(self, value: bytes) -> bytes: ...

    def source(self, value: bytes) -> bytes: ...

    def hops(self, value: int) -> int: ...


# Writing


def write_piece_message(out: pb.Control, message: PieceMessage) -> None:
    """Set `out` to `message`. Raises TypeError for ids, sources and envelopes of another type."""
    match message:
        case Piece(id, root, index, data, proof, _):
            out.piece.id = id_bytes(id)
            out.piece.root = root
            out.piece.index = index
            out.piece.proof = b"".join(proof)
            out.piece.data = data
        case PieceAnnounce(preamble, have, hops):
            _write_preamble(out.piece_announce.preamble, preamble)
            out.piece_announce.have = _mask_bytes(have)
            out.piece_announce.hops = hops
        case PieceOffer(offers, accepted):
            # SetInParent makes the choice stick when the message is empty.
            out.piece_offer.SetInParent()
            for source, rank in offers:
                out.piece_offer.offers.add(source=source_bytes(source), rank=rank)
            if accepted:
                out.piece_offer.accepted = True
        case PieceGraft(wants, source):
            out.piece_graft.SetInParent()
            for id, missing in wants:
                out.piece_graft.wants.add(id=id_bytes(id), missing=_mask_bytes(missing))
            if source is not None:
                out.piece_graft.source = source_bytes(source)
        case PiecePrune(source, instead):
            out.piece_prune.source = source_bytes(source)
            out.piece_prune.instead.extend(map(id_bytes, instead))


def _write_preamble(out: pb.Preamble, preamble: Preamble) -> None:
    envelope = preamble.envelope
    if not isinstance(envelope, Authorship):
        raise TypeError(f"the envelope of a preamble must be an Authorship: {envelope!r}")
    out.id = id_bytes(preamble.id)
    out.author = envelope.author
    out.seqno = envelope.seqno
    out.size = preamble.size
    out.piece_size = preamble.piece_size
    out.root = preamble.root
    if envelope.key:
        out.key = envelope.key
    if envelope.signature:
        out.signature = envelope.signature


def _mask_bytes(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


# Reading


def _piece(reader: PartReader, body: pb.Piece) -> Piece:
    id, proof = reader.message_id(body.id), body.proof
    if (
        not 1 <= len(body.data) <= reader.limits.max_piece_bytes
        or body.index >= reader.limits.max_pieces
        or len(body.root) != HASH_BYTES
        or len(proof) % HASH_BYTES
        or len(proof) > _MOST_HASHES * HASH_BYTES
    ):
        raise PartDropped(WireFault.BAD_PIECE)
    hashes = tuple(proof[at : at + HASH_BYTES] for at in range(0, len(proof), HASH_BYTES))
    return Piece(id, body.root, body.index, body.data, hashes, len(body.data))


def _announce(reader: PartReader, body: pb.PieceAnnounce) -> PieceAnnounce:
    preamble = _preamble(reader, body.preamble)
    return PieceAnnounce(preamble, _mask(reader, body.have), reader.hops(body.hops))


def _preamble(reader: PartReader, body: pb.Preamble) -> Preamble:
    limits = reader.limits
    id, author = reader.message_id(body.id), reader.peer_id(body.author)
    if (
        not 1 <= len(body.seqno) <= limits.max_seqno_bytes
        or len(body.key) > limits.max_key_bytes
        or len(body.signature) > limits.max_signature_bytes
    ):
        raise PartDropped(WireFault.BAD_PREAMBLE)
    key = needed_key(author, body.key)
    envelope = Authorship(author, body.seqno, key, body.signature)
    made = Preamble(id, source_id(author), body.size, body.piece_size, body.root, envelope)
    if not body.piece_size or not is_sound(made):
        raise PartDropped(WireFault.BAD_PREAMBLE)
    return made


def _mask(reader: PartReader, value: bytes) -> int:
    if len(value) * 8 > reader.limits.max_pieces:
        raise PartDropped(WireFault.BAD_MASK)
    return int.from_bytes(value, "little")


def _offer(reader: PartReader, body: pb.PieceOffer) -> PieceOffer:
    def read(line: pb.TreeOffer) -> TreeOffer:
        return TreeOffer(reader.source(line.source), line.rank)

    limit = reader.limits.max_sources
    offers = tuple(reader.each(body.offers, read, limit, WireFault.TOO_MANY_SOURCES))
    return PieceOffer(offers, body.accepted)


def _graft(reader: PartReader, body: pb.PieceGraft) -> PieceGraft:
    def read(line: pb.PieceWant) -> PieceWant:
        return PieceWant(reader.message_id(line.id), _mask(reader, line.missing))

    limit = reader.limits.max_wants
    wants = tuple(reader.each(body.wants, read, limit, WireFault.TOO_MANY_IDS))
    return PieceGraft(wants, reader.source(body.source) if body.HasField("source") else None)


def _prune(reader: PartReader, body: pb.PiecePrune) -> PiecePrune:
    source, limit = reader.source(body.source), reader.limits.max_peers
    named = reader.each(body.instead, reader.peer_id, limit, WireFault.TOO_MANY_PEERS)
    return PiecePrune(source, tuple(named))


PIECE_READERS: dict[str, Callable[[Any, Any], PieceMessage]] = {
    "piece": _piece,
    "piece_announce": _announce,
    "piece_offer": _offer,
    "piece_graft": _graft,
    "piece_prune": _prune,
}
"""By the name of the field in Control."""
