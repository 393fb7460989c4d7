"""How a narrow tree is built and kept: who gets places, parents that fail, shorter ways, bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from episub_router.protocol import effects as ef
from episub_router.protocol import piece_messages as m
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import cut
from episub_router.protocol.pieces.narrow_tree import (
    MAX_RANK,
    MAX_TREES,
    SHORT,
    NarrowTree,
    NarrowTrees,
)
from episub_router.protocol.types import NEVER, PeerId
from tests.protocol.pieces.helpers import (
    DATA,
    FAR,
    GRAFT,
    NEAR,
    PIECES,
    PREAMBLE,
    PRUNE,
    SECOND,
    Neighbours,
    bring,
    child_of,
    machine,
    offer,
    to,
)


def test_one_that_waits_for_a_place_gives_its_own_when_it_has_one() -> None:
    node = machine("a", "b", "c", "d", places=1)
    (asked,) = to(node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0), "a")[:1]
    assert isinstance(asked, m.PieceGraft)
    want = m.PieceGraft((m.PieceWant("id", 0b11),), "source")
    for child in ("b", "c"):
        assert not node.receive(child, want, 0.1)
    assert to(node.receive("d", want, 0.1), "d") == [m.PiecePrune("source", ("b", "c"))]
    assert to(node.receive("a", want, 0.1), "a") == [m.PiecePrune("source", ("b", "c"))]
    accepted = node.receive("a", offer(accepted=True), 0.2)
    for child in ("b", "c"):
        assert to(accepted, child) == [offer(70, accepted=True)]
    pushed = node.receive("a", PIECES[0], 0.3)
    assert to(pushed, "b") == to(pushed, "c") == [PIECES[0]]


def test_those_that_wait_are_refused_where_nobody_has_a_place() -> None:
    node = machine("a", "b")
    node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    node.receive("b", GRAFT, 0.1)
    refused = node.receive("a", PRUNE, 0.2)
    assert to(refused, "b") == [m.PiecePrune("source", ())]


def test_a_child_that_asks_again_while_there_is_no_parent_takes_one_place() -> None:
    node = child_of("a", "b", "c", "d")
    node.receive("d", offer(), 0.1)
    node.receive("b", GRAFT, 0.2)
    node.receive("a", PRUNE, 0.3)
    assert tree(node).asking == "d"
    assert not node.receive("b", GRAFT, 0.4)
    assert tree(node).places_taken == 1
    assert not node.receive("c", GRAFT, 0.4)  # There is another place, and "c" waits, too.
    node.receive("b", PRUNE, 0.5)
    assert tree(node).places_taken == 1
    accepted = node.receive("d", offer(accepted=True), 0.6)
    assert offer(70, accepted=True) in to(accepted, "c")
    assert list(tree(node).children) == ["c"]


def test_a_parent_that_asks_for_a_place_is_refused_while_another_is_asked() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("a", offer(200), 0.2)
    tree(node).rank = 300
    node.receive("b", m.PieceAnnounce(PREAMBLE, 0, 1), 0.2)
    node.receive("b", offer(), 0.2)
    assert (tree(node).parent, tree(node).asking) == ("a", "b")
    refused = node.receive("a", GRAFT, 0.3)
    assert to(refused, "a") == [PRUNE]
    assert not tree(node).waiting


def test_a_new_child_gets_what_it_could_not_know_of_when_it_asked() -> None:
    """A source's second message right after its first, on its way when the child asked."""
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("a", m.PieceAnnounce(SECOND, 0, 1), 0.1)
    bring(node, "a", SECOND, 0.2)
    wants = m.PieceGraft((m.PieceWant("id", 0b11),), "source")
    gets = to(node.receive("b", wants, 3.1), "b")
    assert [piece.id for piece in gets if isinstance(piece, m.Piece)] == ["id"] * 2 + ["second"] * 7
    assert m.PieceAnnounce(SECOND, 0b1111111, 2) in gets


def test_a_new_child_does_not_get_what_is_long_past() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    gets = to(node.receive("b", GRAFT, 3.2), "b")
    assert gets == [offer(70, accepted=True)]


def test_one_that_is_inside_of_a_tree_has_fewer_places_in_others() -> None:
    node = child_of("a", "b", "c", "d")
    for source in ("source", "second"):
        node.receive("a", m.PieceOffer((m.TreeOffer(source, 0),)), 0.0)
        node.receive("a", m.PieceOffer((m.TreeOffer(source, 0),), accepted=True), 0.0)
    answers = [
        to(node.receive(child, m.PieceGraft((), source), 0.1), child)[0]
        for source, child in (("source", "b"), ("source", "c"), ("second", "b"), ("second", "c"))
    ]
    assert [isinstance(answer, m.PieceOffer) for answer in answers] == [True, True, True, False]


def test_a_parent_that_brought_nothing_is_left_and_asked_no_more() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("a", m.PieceAnnounce(SECOND, 0, 1), 1.0)
    node.receive("b", m.PieceAnnounce(SECOND, 0, 2), 1.0)
    effects: list[ef.Effect] = []
    while not to(effects, "b"):
        effects += node.handle_timer(node.next_deadline())
    now = 2.5
    for piece in PIECES:
        effects += node.receive("b", replace(piece, id="second"), now)
    assert PRUNE in to(effects, "a")
    again = node.receive("a", offer(), now + 1.0)
    assert not to(again, "a")


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
        node.receive(peer, offer(rank), 0.0)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", m.PieceAnnounce(SECOND, 0b1111111, 2), 1.0)
    assert asked_by_timers(node, "a", 2) == [
        m.PieceGraft((m.PieceWant("second", 0b1111111),)),
        PRUNE,
    ]
    assert tree(node).asking == "b"
    node.receive("b", PRUNE, 8.0)
    assert tree(node).asking == "c"
    node.receive("c", PRUNE, 8.1)
    again = node.receive("a", offer(), 9.1)
    assert not to(again, "a")


def test_a_parent_that_waits_itself_keeps_its_child() -> None:
    node = child_of("a", "b")
    node.receive("b", m.PieceAnnounce(PREAMBLE, 0b1111111, 2), 0.0)
    assert asked_by_timers(node, "a", 1)
    now = node.next_deadline() - 0.1
    assert not node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), now)
    asked_by_timers(node, "b", 1)
    assert tree(node).parent == "a"


def test_a_parent_that_said_it_waits_and_then_brings_all_stays() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    for peer in ("a", "b"):
        node.receive(peer, m.PieceAnnounce(SECOND, 0, 1), 1.0)
    assert asked_by_timers(node, "a", 1)
    node.receive("a", m.PieceAnnounce(SECOND, 0, 1), 2.1)
    bring(node, "a", SECOND, 2.2)
    assert tree(node).parent == "a"
    assert not failed(node, 0.0)


def test_a_parent_that_has_the_message_from_us_is_not_taken_for_silent() -> None:
    node = child_of("a", "b")
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", m.PieceAnnounce(SECOND, 0, 2), 1.0)
    node.receive("a", replace(PIECES[0], id="second"), 1.1)
    asked_by_timers(node, "a", 2)
    assert tree(node).parent is None  # As any that stalls.
    assert not failed(node, 0.0)


def test_an_answer_may_take_two_round_trips() -> None:
    node = child_of("a", "b", rtt=0.5)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", m.PieceAnnounce(SECOND, 0, 2), 1.0)
    asked = node.next_deadline()
    assert to(node.handle_timer(asked), "a")
    assert node.next_deadline() == asked + 1.0


def test_a_failure_is_forgotten_after_ten_minutes() -> None:
    node = child_of("a", "b")
    node.receive("b", offer(200), 0.0)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("b", m.PieceAnnounce(SECOND, 0b1111111, 2), 1.0)
    asked_by_timers(node, "a", 2)
    node.receive("b", offer(200, accepted=True), 2.5)
    bring(node, "b", SECOND, 2.6)
    asked_at = []
    for at in range(60, 661, 60):  # A tree that is idle for longer is forgotten.
        later = replace(PREAMBLE, id=f"at {at}")
        node.receive("a", m.PieceAnnounce(later, 0, 1), at)
        node.receive("a", offer(), at)
        if to(bring(node, "b", later, at), "a"):
            asked_at.append(at)
    assert asked_at == [660]


def test_no_shorter_way_is_taken_to_a_neighbour_that_announced_nothing() -> None:
    node = child_of("a", "b")
    node.receive("a", PRUNE, 0.1)
    node.receive("a", offer(200), 0.1)
    node.receive("a", offer(200, accepted=True), 0.1)
    bring(node, "a", PREAMBLE, 0.2)
    assert not to(node.receive("b", offer(100), 0.3), "b")


@pytest.mark.parametrize("is_whole", [False, True])
def test_one_that_only_answers_a_pull_is_no_announcer(is_whole: bool) -> None:
    """Nor where its answer comes after the last piece."""
    node = child_of("a", "b")
    asked_by_timers(node, "b", 1)
    if is_whole:
        bring(node, "a", PREAMBLE, 2.0)
    node.receive("b", m.PieceAnnounce(PREAMBLE, 0, 2), 2.1)
    assert list(tree(node).announcers) == ["a"]


def test_where_all_but_the_children_have_failed_they_are_asked_again() -> None:
    node = child_of("a", "b", "c")
    node.receive("b", offer(5), 0.0)
    node.receive("c", GRAFT, 0.1)
    bring(node, "a", PREAMBLE, 0.1)
    node.receive("c", m.PieceAnnounce(SECOND, 0, 2), 1.0)
    asked_by_timers(node, "a", 2)
    assert failed(node, 0.0) == ["a"]
    node.receive("b", offer(5, accepted=True), 3.0)
    bring(node, "c", SECOND, 3.1)
    node.receive("c", m.PieceAnnounce(replace(PREAMBLE, id="third"), 0, 2), 30.0)
    asked_by_timers(node, "b", 2)
    assert not failed(node, 0.0)
    assert tree(node).asking is not None


def test_those_that_claim_all_and_send_nothing_are_asked_after_the_others() -> None:
    node = machine("a", "b", "c", "d")
    node.receive("a", m.PieceAnnounce(PREAMBLE, 0b1111111, 1), 0.0)
    for peer in ("b", "c", "d"):
        node.receive(peer, m.PieceAnnounce(PREAMBLE, 0b1111111 if peer != "d" else 0, 2), 0.0)
    while not to(node.handle_timer(node.next_deadline()), "d"):
        assert node.next_deadline() < 10.0


def test_a_shorter_way_is_taken_once_no_message_is_under_way() -> None:
    node = child_of("a", "b", "c", "d")
    node.receive("b", m.PieceAnnounce(PREAMBLE, 0, 1), 0.1)
    node.receive("a", PRUNE, 0.1)
    node.receive("a", offer(200), 0.1)
    node.receive("a", offer(200, accepted=True), 0.1)
    node.receive("c", GRAFT, 0.1)
    assert not to(node.receive("b", offer(100), 0.1), "b")
    asked = [to(node.receive("a", piece, 0.2), "b") for piece in PIECES][-1]
    assert asked == [m.PieceGraft((m.PieceWant("id", 0),), "source")]
    moved = node.receive("b", offer(100, accepted=True), 0.3)
    assert to(moved, "a")[0] == PRUNE
    assert to(moved, "c") == [offer(170, accepted=True)]


# Hosts without places of their own


def asked(effects: list[ef.Effect]) -> list[object]:
    """Those that are asked for a place."""
    sends = [effect for effect in effects if isinstance(effect, ef.Send)]
    return [
        send.peer
        for send in sends
        if isinstance(send.message, m.PieceGraft) and send.message.source is not None
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
    assert not asked(node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0))
    assert not asked(node.receive("b", offer(), 0.1))
    due = node.next_deadline()
    assert due == 0.5
    assert asked(node.handle_timer(due)) == ["a"]
    assert asked(node.receive("a", PRUNE, 0.6)) == ["b"]


def test_a_place_nearer_to_the_source_is_left_to_those_with_places() -> None:
    for places, asks_at, asks in ((2, 0.0, ["b"]), (0, 0.5, [])):
        node = machine("a", "b", places=places)
        node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0)
        node.receive("b", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0)
        node.handle_timer(asks_at)
        node.receive("a", offer(500, accepted=True), asks_at + 0.1)
        for piece in PIECES:
            node.receive("a", piece, asks_at + 0.2)
        assert asked(node.receive("b", offer(), asks_at + 0.3)) == asks


# The first message of a source: whom a node asks, and how wide its tree gets


LONG, LONG_PIECES = cut("long", "source", bytes(SHORT + 1))


def seeker(rtts: dict[PeerId, float]) -> Pieces:
    """One that knows of a message under way, and asks "a" for a place."""
    node = machine("a", "b", "c", "d", rtts=rtts)
    assert asked(node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0)) == ["a"]
    return node


def test_the_place_that_was_offered_last_is_asked_for_first() -> None:
    node = seeker({})
    for peer, now in (("b", 0.1), ("c", 0.2), ("d", 0.15)):
        assert not node.receive(peer, offer(100), now)
    assert asked(node.receive("a", PRUNE, 0.3)) == ["c"]
    assert asked(node.receive("c", PRUNE, 0.4)) == ["d"]
    assert asked(node.receive("d", PRUNE, 0.5)) == ["b"]


def test_a_near_neighbour_goes_before_one_that_offered_a_little_later() -> None:
    node = seeker({"b": 0.02, "c": 0.3})
    node.receive("b", offer(100), 0.1)
    node.receive("c", offer(100), 0.2)
    assert asked(node.receive("a", PRUNE, 0.3)) == ["b"]


def test_a_place_that_was_offered_goes_before_one_that_may_come() -> None:
    node = seeker({"b": 0.02, "c": 0.3})
    for peer in ("b", "c"):
        node.receive(peer, m.PieceAnnounce(PREAMBLE, 0, 1), 0.1)
    assert [rank for rank, _ in tree(node).offers.values()] == [MAX_RANK] * 3
    node.receive("c", offer(100), 0.1)
    assert asked(node.receive("a", PRUNE, 0.3)) == ["c"]


def test_one_that_announces_goes_before_one_that_does_not() -> None:
    """Those that pass nothing on may offer places again and again."""
    node = seeker({})
    node.receive("b", m.PieceAnnounce(PREAMBLE, 0, 1), 0.1)
    node.receive("b", offer(100), 0.1)
    node.receive("c", offer(100), 0.2)
    assert asked(node.receive("a", PRUNE, 0.3)) == ["b"]


def test_short_messages_have_a_third_child_until_a_longer_one_came() -> None:
    source = machine("a", "b", "c", "d")
    source.publish(PREAMBLE, PIECES, 0.0)
    for peer in "abcd":
        source.receive(peer, GRAFT, 0.1)
    assert list(tree(source).children) == ["a", "b", "c"]
    published = source.publish(LONG, LONG_PIECES, 10.0)
    assert ef.Send("c", m.PiecePrune("source", ("a", "b"))) in published
    assert list(tree(source).children) == ["a", "b"]
    assert source.next_deadline() == NEVER
    refused = source.receive("c", GRAFT, 20.0)
    assert refused == [ef.Send("c", m.PiecePrune("source", ("a", "b")))]


def test_a_relay_learns_from_the_announcement_how_long_messages_are() -> None:
    for preamble, taken in ((PREAMBLE, ["b", "c", "d"]), (LONG, ["b", "c"])):
        node = machine("a", "b", "c", "d")
        node.receive("a", m.PieceAnnounce(preamble, 0, 1), 0.0)
        node.receive("a", offer(accepted=True), 0.1)
        for peer in "bcd":
            node.receive(peer, GRAFT, 0.2)
        assert list(tree(node).children) == taken


def test_a_host_without_places_has_none_for_short_messages_either() -> None:
    node = machine("a", "b", places=0)
    node.receive("a", m.PieceAnnounce(PREAMBLE, 0, 1), 0.0)
    node.handle_timer(0.6)
    node.receive("a", offer(accepted=True), 0.7)
    assert tree(node).stands
    assert to(node.receive("b", GRAFT, 0.8), "b") == [m.PiecePrune("source", ())]


def test_a_longer_message_is_known_before_as_the_length_of_the_last() -> None:
    small = m.Preamble("small", "source", 1000, PREAMBLE.piece_size, bytes(32))
    node = machine("a", "b")
    node.receive("a", m.PieceAnnounce(LONG, 0, 1), 0.0)
    node.receive("a", m.PieceAnnounce(small, 0, 1), 0.1)
    assert tree(node).most_children(2) == 2


# Which trees a node keeps


def source(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_made_up_trees_replace_none_that_carries() -> None:
    trees = NarrowTrees()
    own, carrying = source(0), source(1)
    trees.use(own, 0.0, own=True)
    tree = trees.use(carrying, 0.0)
    tree.parent, tree.carried = "parent", True
    for number in range(2, 2 * MAX_TREES):  # a neighbour gives all the places that it offers
        trees.use(source(number), 0.0).parent = "neighbour"
    assert len(trees) == MAX_TREES
    assert trees.get(carrying) is tree
    for number in range(2 * MAX_TREES, 4 * MAX_TREES):  # and pieces come along its trees
        made = trees.use(source(number), 0.0)
        made.parent, made.carried = "neighbour", True
    assert trees.get(carrying) is None
    kept = trees.get(own)
    assert kept is not None
    assert kept.own


def test_trees_without_a_place_go_first() -> None:
    trees = NarrowTrees()
    for number in range(MAX_TREES):
        trees.use(source(number), 0.0).parent = "parent"
    trees.use(source(5), 0.0).parent = None
    trees.use(source(MAX_TREES), 0.0)
    assert trees.get(source(0)) is not None
    # The newest itself isn't one of those that make room.
    assert trees.get(source(5)) is None
    assert trees.get(source(MAX_TREES)) is not None


def test_a_tree_that_goes_takes_its_timers_along() -> None:
    node = machine("a")
    for number in range(4 * MAX_TREES):
        node.receive("a", m.PieceOffer((m.TreeOffer(source(number), 0),)), 0.0)
    assert len(node.trees) == MAX_TREES
    assert 0 < len(node._state.timers) <= MAX_TREES
