"""What is made of announcements: which speak of the same message, and how far they go."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol.effects import DropReason, Effect
from episub_router.protocol.messages import MAX_HOPS, Graft
from episub_router.protocol.piece_messages import PieceAnnounce, PieceGraft, PieceOffer
from episub_router.protocol.pieces.cutting import cut
from tests.protocol.helpers import Member, drops, ihave, sent
from tests.protocol.pieces.helpers import PREAMBLE, dropped, machine, to

EVERYTHING = (1 << PREAMBLE.count) - 1


def test_who_brings_the_first_announcement_does_not_decide_how_it_is_signed() -> None:
    """A key and a signature may be written in several ways, and nobody has signed those."""
    node = machine("a", "b")
    node.receive("a", PieceAnnounce(replace(PREAMBLE, envelope="junk beside it"), 0, 1), 0.0)
    assert not dropped(node.receive("b", PieceAnnounce(PREAMBLE, EVERYTHING, 1), 0.1))
    asked: list[object] = []
    while not asked:
        now = node.next_deadline()
        assert now < 10.0
        asked = to(node.handle_timer(now), "b")
    assert isinstance(asked[0], PieceGraft)


def test_another_message_under_the_same_id_is_refused() -> None:
    node = machine("a", "b")
    node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    for other in (
        replace(PREAMBLE, source="else"),
        replace(PREAMBLE, size=PREAMBLE.size - 1),
        replace(PREAMBLE, piece_size=2 * PREAMBLE.piece_size),
        replace(PREAMBLE, root=bytes(32)),
    ):
        refused = dropped(node.receive("b", PieceAnnounce(other, 0, 1), 0.1))
        assert refused == [DropReason.PREAMBLE_REFUSED]


def test_hops_end_at_what_a_receiver_believes() -> None:
    node = machine("a", "b")
    for hops, passed_on in ((1, 2), (MAX_HOPS - 1, MAX_HOPS), (MAX_HOPS, MAX_HOPS)):
        preamble = replace(PREAMBLE, id=hops)
        announced = to(node.receive("a", PieceAnnounce(preamble, 0, hops), 0.0), "b")
        assert announced == [PieceAnnounce(preamble, 0, passed_on)]


def test_what_comes_in_pieces_is_missing_no_more() -> None:
    """It was announced first; its pieces take longer than a message may be missing."""
    member = Member("a", "b")
    preamble, pieces = cut("large", "source", bytes(16 * 8192))
    for peer in ("a", "b"):
        member.receive(peer, PieceOffer())
    member.receive("a", ihave("large"))
    assert [peer for peer, _ in sent(member.wait(0.4), Graft)] == ["a"]
    member.receive("a", PieceAnnounce(preamble, (1 << 16) - 1, 3))
    effects: list[Effect] = []
    for piece in pieces:
        effects += [*member.receive("a", piece), *member.wait(0.4)]
    assert member.now > 5.0
    assert not sent(effects, Graft)
    assert not drops(effects)
