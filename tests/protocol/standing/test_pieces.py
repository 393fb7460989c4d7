"""Pieces and preambles that no correct peer passes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol import standing as rules
from episub_router.protocol.effects import Ban, DropReason
from episub_router.protocol.messages import Disconnect
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import Piece, PieceAnnounce, PieceOffer, TreeOffer
from episub_router.protocol.pieces.cutting import cut
from tests.protocol.helpers import Member, drops, sent

PREAMBLE, PIECES = cut("id", "source", bytes(50_000))
BAD = replace(PIECES[0], data=b"x" * PIECES[0].size)


def child_of(parent: str, *others: str) -> Member:
    """A member that gets the pieces of one message from `parent`."""
    member = Member(parent, *others, broadcast=BroadcastParams(piece_threshold=1))
    for peer in (parent, *others):
        member.receive(peer, PieceOffer())
    member.receive(parent, PieceAnnounce(PREAMBLE, 0, 1))
    member.receive(parent, PieceOffer((TreeOffer("source", 0),)))
    member.receive(parent, PieceOffer((TreeOffer("source", 0),), accepted=True))
    return member


def standing(member: Member, peer: str) -> float:
    return member.machine.broadcast.standings.of(peer, member.now)


@pytest.mark.parametrize("bad", [BAD, replace(PIECES[0], index=PREAMBLE.count)])
def test_one_bad_piece_is_enough_for_a_ban(bad: Piece) -> None:
    """Each node checks a piece before it passes it on."""
    member = child_of("a", "b")
    effects = member.receive("a", bad)
    assert DropReason.PIECE_INVALID in drops(effects)
    assert Ban("a", rules.BAN_TIME) in effects
    assert member.active == {"b"}
    assert [peer for peer, _ in sent(effects, Disconnect)] == ["a"]


def test_pieces_that_come_late_cost_nothing() -> None:
    """They were on their way, or another was faster."""
    member = child_of("a")
    member.receive("a", PIECES[0])
    member.receive("a", PIECES[0])
    member.receive("a", replace(PIECES[1], id="unknown"))
    assert standing(member, "a") == 0


def test_a_preamble_without_room_costs_nothing() -> None:
    member = child_of("a", "b")
    for number in range(100):
        member.receive("a", PieceAnnounce(replace(PREAMBLE, id=number), 0, 1))
    member.receive("a", PieceAnnounce(replace(PREAMBLE, root=bytes(32)), 0, 1))
    assert standing(member, "a") == 0


def test_a_whole_message_that_validators_refuse_costs_nobody() -> None:
    """Its author signed what it is made of; those that passed it on couldn't tell."""
    member = child_of("a")
    for piece in PIECES:
        member.receive("a", piece)
    member.handle(ev.PayloadRejected("a", "id"))
    assert standing(member, "a") == 0
