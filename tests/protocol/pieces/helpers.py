"""Machines of large messages, with neighbours that take pieces."""

from __future__ import annotations

from random import Random

from episub_router.protocol import effects as ef
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import PieceAnnounce, PieceOffer, TreeOffer
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import cut, joined

DATA = Random(2).randbytes(50_000)
PREAMBLE, PIECES = cut("id", "source", DATA)


def machine(*peers: str, rtt: float = 0.1) -> Pieces:
    made = Pieces(BroadcastParams(piece_threshold=1), lambda peer: rtt)
    for peer in peers:
        made.on_neighbor_up(peer, 0.0)
        made.receive(peer, PieceOffer(), 0.0)
    return made


def whole(effects: list[ef.Effect]) -> list[bytes]:
    return [joined(effect.pieces) for effect in effects if isinstance(effect, ef.Assembled)]


def dropped(effects: list[ef.Effect]) -> list[ef.DropReason]:
    return [effect.reason for effect in effects if isinstance(effect, ef.Dropped)]


def to(effects: list[ef.Effect], peer: str) -> list[object]:
    return [e.message for e in effects if isinstance(e, ef.Send) and e.peer == peer]


def child_of(peer: str, *others: str, rtt: float = 0.1) -> Pieces:
    """A machine that has `peer` as its parent, and knows of the message."""
    made = machine(peer, *others, rtt=rtt)
    made.receive(peer, PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    made.receive(peer, PieceOffer((TreeOffer("source", 0),)), 0.0)
    made.receive(peer, PieceOffer((TreeOffer("source", 0),), accepted=True), 0.0)
    return made
