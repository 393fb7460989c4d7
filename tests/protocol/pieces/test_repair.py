"""Where pieces don't come along the tree: neighbours that are asked, and how often."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol.effects import DropReason
from episub_router.protocol.piece_messages import Piece, PieceGraft, PieceMessage, PieceWant
from tests.protocol.pieces.helpers import DATA, PIECES, PREAMBLE, Neighbours, bring, child_of, to

NEAR, FAR = 0.001, 0.1
"""Seconds."""


def test_a_neighbour_that_knows_of_the_message_from_us_is_asked_where_it_has_no_place() -> None:
    """It announces nothing to us when it gets the message elsewhere."""
    net = Neighbours(
        {
            ("source", "liar"): NEAR,
            ("liar", "child"): NEAR,
            ("honest", "x"): NEAR,
            ("honest", "y"): NEAR,
            ("child", "honest"): NEAR,
            ("source", "honest"): FAR,
        }
    )

    def carried(sender: str, message: PieceMessage) -> PieceMessage:
        if sender == "liar" and isinstance(message, Piece):
            return replace(message, data=bytes(message.size))
        return message

    net.carried = carried
    net.publish("source", PREAMBLE, PIECES)
    net.run(30.0)
    # Even where nobody bans it.
    assert set(net.dropped["child"]) == {DropReason.PIECE_INVALID}
    assert all(net.whole[node] == [DATA] for node in ("liar", "honest", "x", "y", "child"))


def test_nodes_that_all_wait_ask_each_other_at_a_bounded_pace() -> None:
    net = Neighbours({("source", "a"): NEAR, ("a", "b"): NEAR, ("b", "c"): NEAR, ("c", "a"): NEAR})
    net.carried = lambda sender, message: None if isinstance(message, Piece) else message
    net.publish("source", PREAMBLE, PIECES)
    net.run(60.0)
    assert all(net.dropped[node] == [DropReason.MESSAGE_LOST] for node in ("a", "b", "c"))
    # Twenty times a second, for the ten that a message without any piece is waited for.
    assert all(net.sent[node, "PieceGraft"] <= 2 * 20 * 10 for node in ("a", "b", "c"))


def test_those_that_never_answer_hold_up_none_that_does() -> None:
    """They take pieces, and announced nothing."""
    silent = [f"silent {number}" for number in range(4)]
    links = {("source", "a"): NEAR, ("a", "b"): NEAR}
    net = Neighbours(links | {("b", name): NEAR for name in silent}, {"a": 0})
    begun = net.now

    def carried(sender: str, message: PieceMessage) -> PieceMessage | None:
        is_early = isinstance(message, Piece) and net.now < begun + 1.2
        return None if sender in silent or (sender == "source" and is_early) else message

    net.carried = carried
    net.publish("source", PREAMBLE, PIECES)
    net.run(4.0)  # With them before the others, 8.3.
    assert net.whole["a"] == net.whole["b"] == [DATA]


def test_a_piece_for_which_there_was_no_room_is_sent_when_it_is_asked_for() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    everything = PieceGraft((PieceWant("id", (1 << PREAMBLE.count) - 1),))
    for _ in range(10):  # More often than one that it was sent to.
        assert to(node.receive("b", everything, 1.0), "b") == [*PIECES]
        assert not node.more("id", "b")
        for piece in PIECES:
            node.not_sent(piece, "b")
        assert node.more("id", "b") == PREAMBLE.count
