"""How a narrow tree is built and kept: places, parents that fail, and shorter ways."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol import effects as ef
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceOffer,
    PiecePrune,
    PieceWant,
    TreeOffer,
)
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.narrow_tree import NarrowTree
from tests.protocol.pieces.helpers import PIECES, PREAMBLE, bring, child_of, machine, to


def test_one_that_waits_for_a_place_gives_its_own_when_it_has_one() -> None:
    node = machine("a", "b", "c", "d", places=1)
    (asked,) = to(node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0), "a")[:1]
    assert isinstance(asked, PieceGraft)
    want = PieceGraft((PieceWant("id", 0b11),), "source")
    for child in ("b", "c"):
        assert not node.receive(child, want, 0.1)
    assert to(node.receive("d", want, 0.1), "d") == [PiecePrune("source", ("b", "c"))]
    assert to(node.receive("a", want, 0.1), "a") == [PiecePrune("source", ("b", "c"))]
    accepted = node.receive("a", PieceOffer((TreeOffer("source", 0),), accepted=True), 0.2)
    for child in ("b", "c"):
        assert to(accepted, child) == [PieceOffer((TreeOffer("source", 70),), accepted=True)]
    pushed = node.receive("a", PIECES[0], 0.3)
    assert to(pushed, "b") == to(pushed, "c") == [PIECES[0]]


def test_those_that_wait_are_refused_where_nobody_has_a_place() -> None:
    node = machine("a", "b")
    node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    node.receive("b", PieceGraft((), "source"), 0.1)
    refused = node.receive("a", PiecePrune("source"), 0.2)
    assert to(refused, "b") == [PiecePrune("source", ())]


def test_a_child_that_asks_again_while_there_is_no_parent_takes_one_place() -> None:
    node = child_of("a", "b", "c", "d")
    node.receive("d", PieceOffer((TreeOffer("source", 0),)), 0.1)
    graft = PieceGraft((), "source")
    node.receive("b", graft, 0.2)
    node.receive("a", PiecePrune("source"), 0.3)
    assert tree(node).asking == "d"
    assert not node.receive("b", graft, 0.4)
    assert tree(node).places_taken == 1
    assert not node.receive("c", graft, 0.4)  # There is another place, and "c" waits, too.
    node.receive("b", PiecePrune("source"), 0.5)
    assert tree(node).places_taken == 1
    accepted = node.receive("d", PieceOffer((TreeOffer("source", 0),), accepted=True), 0.6)
    assert PieceOffer((TreeOffer("source", 70),), accepted=True) in to(accepted, "c")
    assert list(tree(node).children) == ["c"]


def test_a_parent_that_asks_for_a_place_is_refused_while_another_is_asked() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("a", PieceOffer((TreeOffer("source", 200),)), 0.2)
    tree(node).rank = 300
    node.receive("b", PieceAnnounce(PREAMBLE, 0, 1), 0.2)
    node.receive("b", PieceOffer((TreeOffer("source", 0),)), 0.2)
    assert (tree(node).parent, tree(node).asking) == ("a", "b")
    refused = node.receive("a", PieceGraft((), "source"), 0.3)
    assert to(refused, "a") == [PiecePrune("source")]
    assert not tree(node).waiting


def test_a_new_child_gets_what_it_could_not_know_of_when_it_asked() -> None:
    """A source's second message right after its first, on its way when the child asked."""
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    second = replace(PREAMBLE, id="second")
    node.receive("a", PieceAnnounce(second, 0, 1), 0.1)
    bring(node, "a", second, 0.2)
    graft = PieceGraft((PieceWant("id", 0b11),), "source")
    gets = to(node.receive("b", graft, 3.1), "b")
    assert [piece.id for piece in gets if isinstance(piece, Piece)] == ["id"] * 2 + ["second"] * 7
    assert PieceAnnounce(second, 0b1111111, 2) in gets


def test_a_new_child_does_not_get_what_is_long_past() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    gets = to(node.receive("b", PieceGraft((), "source"), 3.2), "b")
    assert gets == [PieceOffer((TreeOffer("source", 70),), accepted=True)]


def test_one_that_is_inside_of_a_tree_has_fewer_places_in_others() -> None:
    node = child_of("a", "b", "c", "d")
    for source in ("source", "second"):
        node.receive("a", PieceOffer((TreeOffer(source, 0),)), 0.0)
        node.receive("a", PieceOffer((TreeOffer(source, 0),), accepted=True), 0.0)
    answers = [
        to(node.receive(child, PieceGraft((), source), 0.1), child)[0]
        for source, child in (("source", "b"), ("source", "c"), ("second", "b"), ("second", "c"))
    ]
    assert [isinstance(answer, PieceOffer) for answer in answers] == [True, True, True, False]


def test_a_parent_that_brought_nothing_is_left_and_asked_no_more() -> None:
    node = child_of("a", "b")
    for piece in PIECES:
        node.receive("a", piece, 0.1)
    second = replace(PREAMBLE, id="second")
    node.receive("a", PieceAnnounce(second, 0, 1), 1.0)
    node.receive("b", PieceAnnounce(second, 0, 2), 1.0)
    effects: list[ef.Effect] = []
    while not to(effects, "b"):
        effects += node.handle_timer(node.next_deadline())
    now = 2.5
    for piece in PIECES:
        effects += node.receive("b", replace(piece, id="second"), now)
    assert PiecePrune("source") in to(effects, "a")
    again = node.receive("a", PieceOffer((TreeOffer("source", 0),)), now + 1.0)
    assert not to(again, "a")


SECOND = replace(PREAMBLE, id="second")


def tree(node: Pieces) -> NarrowTree:
    found = node.trees.get("source")
    assert found is not None
    return found


def failed(node: Pieces, now: float) -> list[object]:
    """Those that are no candidates for long."""
    return [peer for peer, until in tree(node).barred.items() if until > now + 60.0]


def asked_by_timers(node: Pieces, peer: str, asks: int) -> list[object]:
    """What `peer` is sent by the next timers, as many as it takes for so many messages."""
    found: list[object] = []
    while len(found) < asks:
        now = node.next_deadline()
        assert now < 60.0
        found += to(node.handle_timer(now), peer)
    return found


def test_a_parent_that_does_not_even_answer_is_left_for_one_that_announced() -> None:
    node = child_of("a", "b", "c")
    for peer, rank in (("c", 1), ("b", 2)):
        node.receive(peer, PieceOffer((TreeOffer("source", rank),)), 0.0)
    second = replace(PREAMBLE, id="second")
    for piece in PIECES:
        node.receive("a", piece, 0.1)
    node.receive("b", PieceAnnounce(second, 0b1111111, 2), 1.0)
    assert asked_by_timers(node, "a", 2) == [
        PieceGraft((PieceWant("second", 0b1111111),)),
        PiecePrune("source"),
    ]
    assert tree(node).asking == "b"
    node.receive("b", PiecePrune("source"), 8.0)
    assert tree(node).asking == "c"
    node.receive("c", PiecePrune("source"), 8.1)
    again = node.receive("a", PieceOffer((TreeOffer("source", 0),)), 9.1)
    assert not to(again, "a")


def test_a_parent_that_waits_itself_keeps_its_child() -> None:
    node = child_of("a", "b")
    node.receive("b", PieceAnnounce(PREAMBLE, 0b1111111, 2), 0.0)
    assert asked_by_timers(node, "a", 1)
    now = node.next_deadline() - 0.1
    assert not node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), now)
    asked_by_timers(node, "b", 1)
    assert tree(node).parent == "a"


def test_a_parent_that_said_it_waits_and_then_brings_all_stays() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    for peer in ("a", "b"):
        node.receive(peer, PieceAnnounce(SECOND, 0, 1), 1.0)
    assert asked_by_timers(node, "a", 1)
    node.receive("a", PieceAnnounce(SECOND, 0, 1), 2.1)
    bring(node, "a", SECOND, 2.2)
    assert tree(node).parent == "a"
    assert not failed(node, 0.0)


def test_a_parent_that_has_the_message_from_us_is_not_taken_for_silent() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", PieceAnnounce(SECOND, 0, 2), 1.0)
    node.receive("a", replace(PIECES[0], id="second"), 1.1)
    asked_by_timers(node, "a", 2)
    assert tree(node).parent is None  # As any that stalls.
    assert not failed(node, 0.0)


def test_an_answer_may_take_two_round_trips() -> None:
    node = child_of("a", "b", rtt=0.5)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", PieceAnnounce(SECOND, 0, 2), 1.0)
    asked = node.next_deadline()
    assert to(node.handle_timer(asked), "a")
    assert node.next_deadline() == asked + 1.0


def test_a_failure_is_forgotten_after_ten_minutes() -> None:
    node = child_of("a", "b")
    node.receive("b", PieceOffer((TreeOffer("source", 200),)), 0.0)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", PieceAnnounce(SECOND, 0b1111111, 2), 1.0)
    asked_by_timers(node, "a", 2)
    node.receive("b", PieceOffer((TreeOffer("source", 200),), accepted=True), 2.5)
    bring(node, "b", SECOND, 2.6)
    asked_at = []
    for at in range(60, 661, 60):  # A tree that is idle for longer is forgotten.
        later = replace(PREAMBLE, id=f"at {at}")
        node.receive("a", PieceAnnounce(later, 0, 1), at)
        node.receive("a", PieceOffer((TreeOffer("source", 0),)), at)
        if to(bring(node, "b", later, at), "a"):
            asked_at.append(at)
    assert asked_at == [660]


def test_no_shorter_way_is_taken_to_a_neighbour_that_announced_nothing() -> None:
    node = child_of("a", "b")
    node.receive("a", PiecePrune("source"), 0.1)
    node.receive("a", PieceOffer((TreeOffer("source", 200),)), 0.1)
    node.receive("a", PieceOffer((TreeOffer("source", 200),), accepted=True), 0.1)
    for piece in PIECES:
        node.receive("a", piece, 0.2)
    assert not to(node.receive("b", PieceOffer((TreeOffer("source", 100),)), 0.3), "b")


def test_one_that_only_answers_a_pull_is_no_announcer() -> None:
    node = child_of("a", "b")
    asked_by_timers(node, "b", 1)
    node.receive("b", PieceAnnounce(PREAMBLE, 0, 2), 2.0)
    assert list(tree(node).announcers) == ["a"]


def test_nor_where_its_answer_comes_after_the_last_piece() -> None:
    node = child_of("a", "b")
    asked_by_timers(node, "b", 1)
    bring(node, "a", PREAMBLE, 2.0)
    node.receive("b", PieceAnnounce(PREAMBLE, 0, 2), 2.1)
    assert list(tree(node).announcers) == ["a"]


def test_where_all_but_the_children_have_failed_they_are_asked_again() -> None:
    node = child_of("a", "b", "c")
    node.receive("b", PieceOffer((TreeOffer("source", 5),)), 0.0)
    node.receive("c", PieceGraft((), "source"), 0.1)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("c", PieceAnnounce(SECOND, 0, 2), 1.0)
    asked_by_timers(node, "a", 2)
    assert failed(node, 0.0) == ["a"]
    node.receive("b", PieceOffer((TreeOffer("source", 5),), accepted=True), 3.0)
    bring(node, "c", SECOND, 3.1)
    node.receive("c", PieceAnnounce(replace(PREAMBLE, id="third"), 0, 2), 30.0)
    asked_by_timers(node, "b", 2)
    assert not failed(node, 0.0)
    assert tree(node).asking is not None


def test_those_that_claim_all_and_send_nothing_are_asked_after_the_others() -> None:
    node = machine("a", "b", "c", "d")
    node.receive("a", PieceAnnounce(PREAMBLE, 0b1111111, 1), 0.0)
    for peer in ("b", "c", "d"):
        node.receive(peer, PieceAnnounce(PREAMBLE, 0b1111111 if peer != "d" else 0, 2), 0.0)
    while not to(node.handle_timer(node.next_deadline()), "d"):
        assert node.next_deadline() < 10.0


def test_a_shorter_way_is_taken_once_no_message_is_under_way() -> None:
    node = child_of("a", "b", "c", "d")
    node.receive("b", PieceAnnounce(PREAMBLE, 0, 1), 0.1)
    node.receive("a", PiecePrune("source"), 0.1)
    node.receive("a", PieceOffer((TreeOffer("source", 200),)), 0.1)
    node.receive("a", PieceOffer((TreeOffer("source", 200),), accepted=True), 0.1)
    node.receive("c", PieceGraft((), "source"), 0.1)
    assert not to(node.receive("b", PieceOffer((TreeOffer("source", 100),)), 0.1), "b")
    asked = [to(node.receive("a", piece, 0.2), "b") for piece in PIECES][-1]
    assert asked == [PieceGraft((PieceWant("id", 0),), "source")]
    moved = node.receive("b", PieceOffer((TreeOffer("source", 100),), accepted=True), 0.3)
    assert to(moved, "a")[0] == PiecePrune("source")
    assert to(moved, "c") == [PieceOffer((TreeOffer("source", 170),), accepted=True)]
