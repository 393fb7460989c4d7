"""Who gets the places of a tree where some hosts have none of their own to give."""

from __future__ import annotations

from episub_router.protocol import effects as ef
from episub_router.protocol.piece_messages import (
    PieceAnnounce,
    PieceGraft,
    PieceOffer,
    PiecePrune,
    TreeOffer,
)
from tests.protocol.pieces.helpers import DATA, PIECES, PREAMBLE, Neighbours, machine

NEAR, FAR = 0.001, 0.1
"""Seconds."""

OFFER = PieceOffer((TreeOffer("source", 0),))


def asked(effects: list[ef.Effect]) -> list[object]:
    """Those that are asked for a place."""
    sends = [effect for effect in effects if isinstance(effect, ef.Send)]
    return [
        send.peer
        for send in sends
        if isinstance(send.message, PieceGraft) and send.message.source is not None
    ]


def test_the_only_place_of_a_slow_source_goes_to_one_that_has_places() -> None:
    """Those without places are nearer, and know of the message first."""
    links = {("source", "relay"): FAR}
    links |= {("source", leaf): NEAR for leaf in ("a", "b")}
    links |= {("relay", leaf): NEAR for leaf in ("a", "b")}
    net = Neighbours(links, {"source": 0, "a": 0, "b": 0})
    net.publish("source", PREAMBLE, PIECES)
    net.run(10.0)
    assert all(net.whole[node] == [DATA] for node in ("relay", "a", "b"))
    parents = {name: net.nodes[name].trees.get("source") for name in ("relay", "a", "b")}
    assert {name: tree and tree.parent for name, tree in parents.items()} == {
        "relay": "source",
        "a": "relay",
        "b": "relay",
    }
    assert net.sent["source", "Piece"] == len(PIECES)


def test_one_without_places_takes_a_place_that_nobody_else_wants() -> None:
    net = Neighbours({("source", "a"): NEAR}, {"source": 0, "a": 0})
    net.publish("source", PREAMBLE, PIECES)
    net.run(0.9)  # Before it would ask for pieces.
    assert net.whole["a"] == [DATA]


def test_one_without_places_asks_later_and_after_a_refusal_at_once() -> None:
    node = machine("a", "b", places=0)
    assert not asked(node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0))
    assert not asked(node.receive("b", OFFER, 0.1))
    due = node.next_deadline()
    assert due == 0.5
    assert asked(node.handle_timer(due)) == ["a"]
    assert asked(node.receive("a", PiecePrune("source"), 0.6)) == ["b"]


def test_a_place_nearer_to_the_source_is_left_to_those_with_places() -> None:
    for places, asks_at, asks in ((2, 0.0, ["b"]), (0, 0.5, [])):
        node = machine("a", "b", places=places)
        node.receive("a", PieceAnnounce(PREAMBLE, 0, 1), 0.0)
        node.receive("b", PieceAnnounce(PREAMBLE, 0, 1), 0.0)
        node.handle_timer(asks_at)
        node.receive("a", PieceOffer((TreeOffer("source", 500),), accepted=True), asks_at + 0.1)
        for piece in PIECES:
            node.receive("a", piece, asks_at + 0.2)
        assert asked(node.receive("b", OFFER, asks_at + 0.3)) == asks
