"""Neighbours say that they take pieces, again where that is lost, and which messages there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from episub_router.protocol.effects import DropReason, Effect
from episub_router.protocol.messages import MAX_HOPS, Graft
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import PieceAnnounce, PieceGraft, PieceOffer
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import cut
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import Member, drops, ihave, sent
from tests.protocol.pieces.helpers import PIECES, PREAMBLE, dropped, machine, to


def node() -> Pieces:
    return Pieces(BroadcastParams(piece_threshold=1), lambda peer: 0.1)


def greetings_until(made: Pieces, end: float) -> list[float]:
    """When `made` greets its neighbour until `end`."""
    times = []
    while (now := made.next_deadline()) <= end:
        times += [now for _ in to(made.handle_timer(now), "b")]
    return times


def test_a_neighbour_that_does_not_answer_is_greeted_again_five_times_in_all() -> None:
    made = node()
    assert to(made.on_neighbor_up("b", 0.0), "b") == [PieceOffer()]
    assert greetings_until(made, 1_000.0) == [5.0, 15.0, 35.0, 75.0]
    assert made.next_deadline() == NEVER
    made.receive("b", PieceOffer(), 2_000.0)
    assert list(made.takers) == ["b"]


@pytest.mark.parametrize("answers", [True, False])
def test_one_that_answers_or_has_left_is_not_greeted_again(answers: bool) -> None:
    made = node()
    made.on_neighbor_up("b", 0.0)
    if answers:
        made.receive("b", PieceOffer(), 1.0)
    else:
        made.on_neighbor_down("b", 1.0)
    assert greetings_until(made, 1_000.0) == []


def test_a_lost_greeting_is_made_up_for_and_the_exchange_ends() -> None:
    """Of two neighbours one has the other's greeting, and its own was lost."""
    ours, theirs = node(), node()
    ours.on_neighbor_up("b", 0.0)  # lost
    theirs.on_neighbor_up("a", 0.0)
    ours.receive("b", PieceOffer(), 0.1)
    assert not theirs.takers
    sent, now = [], 0.1
    for _ in range(20):
        now = min(ours.next_deadline(), theirs.next_deadline())
        if now == NEVER:
            break
        letters = [(theirs, "a", ours.handle_timer(now), "b")]
        letters += [(ours, "b", theirs.handle_timer(now), "a")]
        while letters:
            receiver, sender, effects, name = letters.pop()
            for message in to(effects, name):
                assert isinstance(message, PieceOffer)
                sent.append(sender)
                other = (ours, "b", "a") if receiver is theirs else (theirs, "a", "b")
                letters.append(
                    (other[0], other[1], receiver.receive(sender, message, now), other[2])
                )
    assert now == NEVER
    assert list(theirs.takers) == ["a"]
    assert list(ours.takers) == ["b"]
    assert len(sent) == 2


def test_what_was_published_before_there_was_a_neighbour_is_announced_to_the_first() -> None:
    """A message that has no room in a frame has no other way."""
    made = node()
    made.publish(PREAMBLE, PIECES, 0.0)
    made.on_neighbor_up("b", 20.0)
    first = to(made.receive("b", PieceOffer(), 20.1), "b")
    assert [type(message) for message in first] == [PieceAnnounce]
    made.receive("b", PieceAnnounce(PREAMBLE, 1, 2), 20.2)
    made.on_neighbor_up("c", 30.0)
    assert to(made.receive("c", PieceOffer(), 30.1), "c") == []


# Announcements: which speak of the same message, and how far they go


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
