"""The first message of a source builds its tree: whom a node asks, and how wide it gets."""

from __future__ import annotations

from episub_router.protocol import effects as ef
from episub_router.protocol.piece_messages import (
    PieceAnnounce,
    PieceGraft,
    PieceOffer,
    PiecePrune,
    Preamble,
    TreeOffer,
)
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import cut
from episub_router.protocol.pieces.narrow_tree import MAX_RANK, SHORT, NarrowTree
from episub_router.protocol.types import NEVER, PeerId
from tests.protocol.pieces.helpers import PIECES, PREAMBLE, machine, to

LONG, LONG_PIECES = cut("long", "source", bytes(SHORT + 1))

OFFER = PieceOffer((TreeOffer("source", 100),))
GRAFT = PieceGraft((), "source")


def tree_of(node: Pieces) -> NarrowTree:
    tree = node.trees.get("source")
    assert tree is not None
    return tree


def asked(effects: list[ef.Effect]) -> list[object]:
    return [e.peer for e in effects if isinstance(e, ef.Send) and isinstance(e.message, PieceGraft)]


def seeker(rtts: dict[PeerId, float]) -> Pieces:
    """One that knows of a message under way, and asks "a" for a place."""
    node = machine("a", "b", "c", "d", rtts=rtts)
    assert asked(node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0)) == ["a"]
    return node


def test_the_place_that_was_offered_last_is_asked_for_first() -> None:
    node = seeker({})
    for peer, now in (("b", 0.1), ("c", 0.2), ("d", 0.15)):
        assert not node.receive(peer, OFFER, now)
    assert asked(node.receive("a", PiecePrune("source"), 0.3)) == ["c"]
    assert asked(node.receive("c", PiecePrune("source"), 0.4)) == ["d"]
    assert asked(node.receive("d", PiecePrune("source"), 0.5)) == ["b"]


def test_a_near_neighbour_goes_before_one_that_offered_a_little_later() -> None:
    node = seeker({"b": 0.02, "c": 0.3})
    node.receive("b", OFFER, 0.1)
    node.receive("c", OFFER, 0.2)
    assert asked(node.receive("a", PiecePrune("source"), 0.3)) == ["b"]


def test_a_place_that_was_offered_goes_before_one_that_may_come() -> None:
    node = seeker({"b": 0.02, "c": 0.3})
    for peer in ("b", "c"):
        node.receive(peer, PieceAnnounce(PREAMBLE, 0, 1), 0.1)
    assert [rank for rank, _ in tree_of(node).offers.values()] == [MAX_RANK] * 3
    node.receive("c", OFFER, 0.1)
    assert asked(node.receive("a", PiecePrune("source"), 0.3)) == ["c"]


def test_one_that_announces_goes_before_one_that_does_not() -> None:
    """Those that pass nothing on may offer places again and again."""
    node = seeker({})
    node.receive("b", PieceAnnounce(PREAMBLE, 0, 1), 0.1)
    node.receive("b", OFFER, 0.1)
    node.receive("c", OFFER, 0.2)
    assert asked(node.receive("a", PiecePrune("source"), 0.3)) == ["b"]


def test_short_messages_have_a_third_child_until_a_longer_one_came() -> None:
    source = machine("a", "b", "c", "d")
    source.publish(PREAMBLE, PIECES, 0.0)
    for peer in "abcd":
        source.receive(peer, GRAFT, 0.1)
    assert list(tree_of(source).children) == ["a", "b", "c"]
    published = source.publish(LONG, LONG_PIECES, 10.0)
    assert ef.Send("c", PiecePrune("source", ("a", "b"))) in published
    assert list(tree_of(source).children) == ["a", "b"]
    assert source.next_deadline() == NEVER
    refused = source.receive("c", GRAFT, 20.0)
    assert refused == [ef.Send("c", PiecePrune("source", ("a", "b")))]


def test_a_relay_learns_from_the_announcement_how_long_messages_are() -> None:
    for preamble, taken in ((PREAMBLE, ["b", "c", "d"]), (LONG, ["b", "c"])):
        node = machine("a", "b", "c", "d")
        node.receive("a", PieceAnnounce(preamble, 0, 1), 0.0)
        node.receive("a", PieceOffer((TreeOffer("source", 0),), accepted=True), 0.1)
        for peer in "bcd":
            node.receive(peer, GRAFT, 0.2)
        assert list(tree_of(node).children) == taken


def test_a_host_without_places_has_none_for_short_messages_either() -> None:
    node = machine("a", "b", places=0)
    node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    node.handle_timer(0.6)
    node.receive("a", PieceOffer((TreeOffer("source", 0),), accepted=True), 0.7)
    assert tree_of(node).stands
    assert to(node.receive("b", GRAFT, 0.8), "b") == [PiecePrune("source", ())]


def test_a_longer_message_is_known_before_as_the_length_of_the_last() -> None:
    small = Preamble("small", "source", 1000, PREAMBLE.piece_size, bytes(32))
    node = machine("a", "b")
    node.receive("a", PieceAnnounce(LONG, 0, 1), 0.0)
    node.receive("a", PieceAnnounce(small, 0, 1), 0.1)
    assert tree_of(node).most_children(2) == 2
