"""Neighbours say that they take pieces; what is lost of it is said again."""

from __future__ import annotations

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import PieceAnnounce, PieceOffer
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.types import NEVER
from tests.protocol.pieces.helpers import PIECES, PREAMBLE, to


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


def test_one_that_answers_is_not_greeted_again() -> None:
    made = node()
    made.on_neighbor_up("b", 0.0)
    made.receive("b", PieceOffer(), 1.0)
    assert greetings_until(made, 1_000.0) == []


def test_one_that_left_is_not_greeted_again() -> None:
    made = node()
    made.on_neighbor_up("b", 0.0)
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
