"""Authors and neighbours that mean harm, slow parents, and pieces that are asked of others."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from episub_router.protocol import piece_messages as m
from episub_router.protocol.effects import DropReason
from episub_router.protocol.pieces.cutting import LARGEST_PIECE, cut
from tests.protocol.pieces.helpers import (
    DATA,
    FAR,
    GRAFT,
    NEAR,
    PIECES,
    PREAMBLE,
    Neighbours,
    bring,
    child_of,
    dropped,
    machine,
    offer,
    to,
    whole,
)

OTHER_PREAMBLE, OTHER_PIECES = cut("id", "source", Random(3).randbytes(60_000))
"""Another message that the same author has signed under the same id."""


def test_an_author_that_signs_two_preambles_costs_its_relays_nothing() -> None:
    charged: list[object] = []
    node = child_of("a", "b", charge=lambda peer, now: charged.append(peer))
    assert len(OTHER_PIECES) > len(PIECES)
    assert dropped(node.receive("b", m.PieceAnnounce(OTHER_PREAMBLE, 0, 1), 0.0)) == [
        DropReason.PREAMBLE_REFUSED
    ]
    for piece in OTHER_PIECES:  # One of an index that this version hasn't got.
        assert dropped(node.receive("a", piece, 0.1)) == [DropReason.PREAMBLE_REFUSED]
    assert not charged
    assert whole(bring(node, "a", PREAMBLE, 0.2)) == [DATA]


def test_preambles_without_a_piece_give_way() -> None:
    """110 kB of preambles of four identities, which honest neighbours pass on."""
    node = machine("a", "b", "c", "d", "e")
    for number in range(440):
        made_up = replace(PREAMBLE, id=number, source=f"identity {number % 4}")
        node.receive("abcd"[number % 4], m.PieceAnnounce(made_up, 0, 1), 0.0)
    announced = m.PieceAnnounce(PREAMBLE, 0, 1)
    assert dropped(node.receive("e", announced, 0.1)) == [DropReason.PREAMBLE_REFUSED]
    assert "id" not in node
    assert to(node.handle_timer(1.1), "e") == [m.PieceGraft((m.PieceWant("id", 0),))]
    node.receive("e", announced, 1.2)
    assert "id" in node
    node.receive("e", offer(accepted=True), 1.2)
    node.receive("e", PIECES[0], 1.2)
    for number in range(440, 880):
        made_up = replace(PREAMBLE, id=number, source=f"identity {number % 4}")
        node.receive("abcd"[number % 4], m.PieceAnnounce(made_up, 0, 1), 2.5)
    assert "id" in node
    assert len(node.transfers.unfinished()) <= 64
    assert whole(bring(node, "e", PREAMBLE, 2.6)) == [DATA]


def test_a_message_that_gave_way_comes_when_its_first_piece_does() -> None:
    node = child_of("a", "b")
    for number in range(16):
        node.receive("b", m.PieceAnnounce(replace(PREAMBLE, id=number), 0, 1), 1.0)
    assert "id" not in node
    asked = node.receive("a", PIECES[0], 1.1)
    assert to(asked, "a") == [m.PieceGraft((m.PieceWant("id", 0),))]
    assert not to(node.receive("a", PIECES[1], 1.1), "a")  # Asked once.
    node.receive("a", m.PieceAnnounce(PREAMBLE, 0b11, 1), 2.0)
    assert whole(bring(node, "a", PREAMBLE, 2.1)) == [DATA]


def test_a_neighbour_that_asks_for_no_piece_is_sent_the_preamble() -> None:
    node = child_of("a", "b")
    node.receive("a", PIECES[0], 0.1)
    answer = to(node.receive("b", m.PieceGraft((m.PieceWant("id", 0),)), 0.2), "b")
    assert answer == [m.PieceAnnounce(PREAMBLE, 1, 2)]


def test_a_slow_parent_does_not_keep_what_others_have() -> None:
    """It sends a piece each 0.3 s; two neighbours have all of them."""
    links = {("source", "slow"): NEAR, ("source", "a"): NEAR, ("source", "b"): NEAR}
    links |= {("slow", "victim"): NEAR, ("victim", "a"): 0.05, ("victim", "b"): 0.05}
    large, pieces = cut("large", "source", bytes(31 * LARGEST_PIECE))
    net = Neighbours(links, {"source": 3, "a": 0, "b": 0})
    held: dict[int, float] = {}

    def delayed(sender: str, message: object) -> float:
        if sender == "slow" and isinstance(message, m.Piece):
            return held.setdefault(message.index, 0.3 * (message.index + 1))
        return 0.0

    net.delayed = delayed
    net.publish("source", large, pieces)
    net.run(3.6)  # Without the others, 9.3.
    assert net.whole["victim"] == [bytes(31 * LARGEST_PIECE)]


def test_what_is_overdue_is_asked_of_one_that_announced_all() -> None:
    """From its end, as the parent goes on with the first pieces."""
    node = child_of("slow", 1, 0)
    everything = (1 << PREAMBLE.count) - 1
    node.receive(0, m.PieceAnnounce(PREAMBLE, everything, 2), 0.0)
    node.receive("slow", PIECES[0], 0.1)
    node.receive("slow", PIECES[1], 2.6)
    asked = node.handle_timer(node.next_deadline())
    assert to(asked, 0) == [m.PieceGraft((m.PieceWant("id", everything & ~0b11),))]
    assert not to(asked, 1)
    assert not to(asked, "slow")


def test_what_has_come_meanwhile_is_not_asked_for_again() -> None:
    node = machine("a", "b", "c", "d", "e")
    for number in range(440):
        made_up = replace(PREAMBLE, id=number, source=f"identity {number % 4}")
        node.receive("abcd"[number % 4], m.PieceAnnounce(made_up, 0, 1), 0.0)
    assert DropReason.PREAMBLE_REFUSED in dropped(
        node.receive("e", m.PieceAnnounce(PREAMBLE, 0, 1), 0.5)
    )
    node.receive("e", m.PieceAnnounce(PREAMBLE, 0, 1), 1.2)
    assert m.PieceGraft((m.PieceWant("id", 0),)) not in to(node.handle_timer(1.5), "e")


def test_a_neighbour_gets_a_piece_again_only_so_often() -> None:
    """It asks for all pieces a hundred times, as a child and not; another one isn't held up."""
    node = child_of("a", "b", "c")
    bring(node, "a", PREAMBLE, 0.1)
    everything = m.PieceWant("id", (1 << PREAMBLE.count) - 1)
    found = [node.receive("b", m.PieceGraft((everything,)), 1.0 + at) for at in range(50)]
    for _ in range(50):
        found.append(node.receive("b", m.PieceGraft((everything,), "source"), 51.0))
        found.append(node.receive("b", GRAFT, 51.0))
    sent = [message for effects in found for message in to(effects, "b")]
    assert sum(isinstance(message, m.Piece) for message in sent) <= 4 * PREAMBLE.count
    assert {reason for effects in found for reason in dropped(effects)} == {
        DropReason.GRAFT_REPEATED
    }
    others = to(node.receive("c", m.PieceGraft((everything,)), 51.0), "c")
    assert sum(isinstance(message, m.Piece) for message in others) == PREAMBLE.count


# Where pieces don't come along the tree: neighbours that are asked, and how often


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

    def carried(sender: str, message: m.PieceMessage) -> m.PieceMessage:
        if sender == "liar" and isinstance(message, m.Piece):
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
    net.carried = lambda sender, message: None if isinstance(message, m.Piece) else message
    net.publish("source", PREAMBLE, PIECES)
    net.run(60.0)
    assert all(net.dropped[node] == [DropReason.MESSAGE_LOST] for node in ("a", "b", "c"))
    # Twenty times a SECOND, for the ten that a message without any piece is waited for.
    assert all(net.sent[node, "PieceGraft"] <= 2 * 20 * 10 for node in ("a", "b", "c"))


def test_those_that_never_answer_hold_up_none_that_does() -> None:
    """They take pieces, and announced nothing."""
    silent = [f"silent {number}" for number in range(4)]
    links = {("source", "a"): NEAR, ("a", "b"): NEAR}
    net = Neighbours(links | {("b", name): NEAR for name in silent}, {"a": 0})
    begun = net.now

    def carried(sender: str, message: m.PieceMessage) -> m.PieceMessage | None:
        is_early = isinstance(message, m.Piece) and net.now < begun + 1.2
        return None if sender in silent or (sender == "source" and is_early) else message

    net.carried = carried
    net.publish("source", PREAMBLE, PIECES)
    net.run(4.0)  # With them before the others, 8.3.
    assert net.whole["a"] == net.whole["b"] == [DATA]


def test_a_piece_for_which_there_was_no_room_is_sent_when_it_is_asked_for() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    everything = m.PieceGraft((m.PieceWant("id", (1 << PREAMBLE.count) - 1),))
    for _ in range(10):  # More often than one that it was sent to.
        assert to(node.receive("b", everything, 1.0), "b") == [*PIECES]
        assert not node.more("id", "b")
        for piece in PIECES:
            node.not_sent(piece, "b")
        assert node.more("id", "b") == PREAMBLE.count
