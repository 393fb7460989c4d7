"""ROOT: lost parents, requests, the source's side, and bounds."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from episub_router.protocol.effects import DropReason, NeighborUp
from episub_router.protocol.messages import (
    Gossip,
    Graft,
    LinkKind,
    Prune,
    Root,
    TreeRoot,
)
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.plumtree.source_trees import ROOT_INTERVAL
from episub_router.protocol.plumtree.tree import MAX_TREES, TREE_IDLE
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import ME, Branch, drops, ihave, sent
from tests.protocol.plumtree.roots import (
    GRAFT_ME,
    GRAFT_S,
    SETTLE,
    ask,
    bring,
    built,
    lose,
    publish,
    root,
)

# Lost parents


def test_a_lost_parent_is_replaced_at_once_by_the_first_feasible_neighbour() -> None:
    """b is no nearer to the source than we are, and may get its messages from us."""
    branch = built("a", "b", "c", "d", a=0.1, b=0.2, c=0.1, d=0.0)
    assert sent(lose(branch, "a")) == [("c", GRAFT_S)]


def test_where_none_is_feasible_the_source_is_asked_for_another_round() -> None:
    branch = built("a", "b", "c", a=0.1, b=0.2, c=0.2)
    assert sent(lose(branch, "a")) == [
        ("b", ask(1)),
        ("b", GRAFT_S),
    ]


def test_children_are_neither_parents_nor_asked() -> None:
    """Their messages come from us, and so would the answer."""
    branch = built("a", "b")
    branch.receive("b", GRAFT_S)
    assert sent(lose(branch, "a")) == []


def test_a_neighbour_that_brought_no_root_is_asked_where_nobody_else_is_left() -> None:
    branch = Branch("a", "b")
    bring(branch, "a")
    assert sent(lose(branch, "a")) == [("b", ask(1))]


def test_trees_that_lose_their_parent_together_ask_in_one_graft() -> None:
    branch = Branch("a", "b")
    for peer, cost in [("a", 0.1), ("b", 0.0)]:
        branch.receive(peer, Root((TreeRoot("s", 1, cost), TreeRoot("t", 1, cost))))
        branch.wait(0.03)
    assert sent(lose(branch, "a"), Graft) == [("b", Graft(sources=("s", "t")))]


def test_a_parent_that_asks_to_be_pushed_to_is_replaced() -> None:
    """It lost its own parent: it has nothing to push."""
    branch = built("a", "b", a=0.1)
    assert sent(branch.receive("a", GRAFT_S)) == [("b", GRAFT_S)]


# Requests


def test_a_request_goes_to_the_parent_once_a_round() -> None:
    branch = built("a", "b", "c")
    assert sent(branch.receive("b", ask(1))) == [("a", ask(1))]
    assert branch.receive("c", ask(1)) == []
    bring(branch, "a", round=2)
    assert branch.receive("b", ask(1)) == []
    assert sent(branch.receive("b", ask(2))) == [("a", ask(2))]


def test_a_request_is_not_sent_back_to_the_parent_that_sent_it() -> None:
    branch = built("a", "b")
    assert branch.receive("a", ask(1)) == []


def test_requests_for_unknown_sources_and_of_strangers_are_dropped() -> None:
    branch = built("a", "b")
    assert branch.receive("b", ask(1, "unknown")) == []
    assert drops(branch.receive("x", ask(1))) == [DropReason.NOT_NEIGHBOR]


def test_the_source_answers_at_most_every_five_seconds() -> None:
    branch = Branch("a", "b")
    ((_, first), _) = sent(publish(branch, "m"), Root)
    branch.receive("a", GRAFT_ME)
    branch.wait(1)
    publish(branch, "n")
    for _ in range(20):
        assert sent(branch.receive("a", ask(first.roots[0].round, ME)), Root) == []
    assert sent(branch.wait(3.9), Root) == []
    again = sent(branch.wait(0.2), Root)
    assert again == [(peer, root(5, source=ME)) for peer in "ab"]
    # An old request, and one without a message since: a node that was cut off missed nothing.
    branch.receive("a", ask(1, ME))
    branch.receive("a", ask(5, ME))
    assert sent(branch.wait(60), Root) == []


# The source's side


def test_a_source_announces_its_tree_with_its_first_message() -> None:
    """Before the payload, which goes along the default tree, as nobody has asked for it yet."""
    branch = Branch("a", "b")
    first = sent(publish(branch, "m"))
    assert first[:2] == [(peer, root(source=ME)) for peer in "ab"]
    assert [message.tree for _, message in first[2:]] == [None, None]


def test_its_messages_go_along_its_tree_once_that_stands() -> None:
    branch = Branch("a", "b")
    publish(branch, "m")
    branch.receive("a", GRAFT_ME)
    branch.wait(0.4)
    assert {message.tree for _, message in sent(publish(branch, "n"), Gossip)} == {None}
    branch.wait(0.2)
    assert sent(publish(branch, "o"), Gossip) == [("a", Gossip("o", 1, "payload", 0, ME, ME))]


def started(clock: float, secret: bytes) -> Branch:
    """A source whose process starts at `clock`."""
    source = Branch("a")
    source.machine = Plumtree(BroadcastParams(), Random(0), source.rtts.get, clock, secret)
    source.handle(NeighborUp("a", LinkKind.RANDOM))
    return source


def begin(clock: float, secret: bytes) -> Root:
    """Its first ROOT."""
    ((_, sent_root),) = sent(publish(started(clock, secret), "m"), Root)
    return sent_root


def test_a_source_knows_its_round_in_a_request() -> None:
    source = started(1.8e9, b"secret")
    ((_, first),) = sent(publish(source, "m"), Root)
    source.receive("a", GRAFT_ME)
    source.wait(1)
    publish(source, "n")
    source.receive("a", ask(first.roots[0].round, ME))
    assert len(sent(source.wait(5), Root)) == 1


def test_a_round_that_is_not_known_is_not_asked_after() -> None:
    branch = Branch("a", "b")
    branch.receive("b", ihave("m"))
    branch.wait(1)
    effects = branch.receive("b", Gossip("m", 3, "payload", 0, "s", "s"))
    effects += lose(branch, "b") + branch.wait(SETTLE)
    assert not [root for _, root in sent(effects, Root) if root.requests]


def test_rounds_go_on_after_a_restart() -> None:
    """They are seconds of the clock, and their proofs come from the same secret."""
    branch = Branch("a", "b")
    assert sent(branch.receive("a", begin(1000.0, b"secret")), Root)
    assert sent(branch.receive("a", begin(1000.0 + TREE_IDLE, b"secret")), Root)


def test_nobody_else_makes_a_round_of_the_source() -> None:
    branch = Branch("a", "b")
    branch.receive("a", begin(1000.0, b"secret"))
    assert sent(branch.receive("b", begin(1001.0, b"guess")), Root) == []
    # Nothing is believed of a source that has been silent for long.
    branch.wait(TREE_IDLE + 1)
    assert sent(branch.receive("b", begin(1001.0, b"guess")), Root)


def test_a_source_whose_root_nobody_answered_sends_another_a_second_later() -> None:
    branch = Branch("a")
    publish(branch, 0)
    rounds = []
    for id in range(1, 31):
        branch.wait(0.1)
        rounds += [message.roots[0].round for _, message in sent(publish(branch, id), Root)]
    assert 2 <= len(rounds) <= 3
    assert rounds == list(range(2, 2 + len(rounds)))


def test_a_busy_source_sends_root_every_interval() -> None:
    branch = Branch("a")
    at = []
    for id in range(500):
        if sent(publish(branch, id), Root):
            at.append(branch.now)
        branch.receive("a", GRAFT_ME)
        branch.wait(0.2)
    interval = ROOT_INTERVAL
    assert len(at) == 5
    assert all(interval <= b - a <= interval + 1 for a, b in pairwise(at))


def test_a_quiet_source_keeps_its_tree_with_few_roots() -> None:
    """Fewer than three messages since the last one: shortly before the tree ends, no sooner."""
    branch = Branch("a")
    at = []
    for id in range(20):
        if sent(publish(branch, id), Root):
            at.append(branch.now)
        branch.receive("a", GRAFT_ME)
        branch.wait(45)
    assert 0.8 * TREE_IDLE <= at[1] - at[0] <= TREE_IDLE + 45
    assert len(at) < 10


def test_messages_without_a_source_have_no_tree() -> None:
    branch = Branch("a")
    assert sent(branch.publish("m"), Root) == []


def test_a_source_without_a_tree_of_its_own_sends_no_root() -> None:
    branch = Branch("a", "b", params=BroadcastParams(source_trees=0))
    assert sent(publish(branch, "m"), Root) == []
    branch.wait(TREE_IDLE)
    assert sent(publish(branch, "n"), Root) == []


# Bounds


def test_no_more_than_64_trees_stand() -> None:
    branch = Branch("a")
    for source in range(64):
        branch.receive("a", root(source=source))
        branch.receive("a", Gossip(source, 1, "payload", 0, source, source))
    branch.receive("a", root(source="no message"))
    branch.wait(1)
    assert sent(publish(branch, "m"), Root) == []
    branch.wait(TREE_IDLE)
    assert len(sent(publish(branch, "n"), Root)) == 1


def test_no_more_than_100_trees_are_kept() -> None:
    branch = Branch("a", "b")
    for start in range(0, 300, 50):
        lines = tuple(TreeRoot(source, 1, 0.0) for source in range(start, start + 50))
        branch.receive("a", Root(lines))
        branch.wait(SETTLE)
    known = [
        source
        for source in range(300)
        if sent(branch.receive("b", ask(1, source))) == [("a", ask(1, source))]
    ]
    assert len(known) == MAX_TREES


def test_unknown_sources_in_graft_and_prune_are_ignored() -> None:
    branch = built("a", "b")
    assert branch.receive("b", Graft(sources=("unknown",), standby=("unknown",))) == []
    assert branch.receive("b", Prune(sources=("unknown",), standby=("unknown",))) == []
    assert drops(branch.receive("x", GRAFT_S)) == [DropReason.NOT_NEIGHBOR]
    push = Gossip("m", 1, "payload", 0, "s", "s")
    assert sent(branch.receive("a", push), Gossip) == []


def test_leaving_the_topic_forgets_the_trees_and_stops_their_timers() -> None:
    branch = built("a", "b")
    branch.receive("a", root(round=2))
    branch.machine.clear()
    assert branch.machine.next_deadline() == NEVER
    branch.handle(NeighborUp("a", LinkKind.RANDOM))
    branch.handle(NeighborUp("b", LinkKind.RANDOM))
    assert [peer for peer, _ in sent(branch.receive("a", root(round=1)), Root)] == ["b"]


@pytest.mark.slow
def test_a_driver_with_more_sources_than_trees_makes_room_among_its_own() -> None:
    branch = Branch("a")
    for batch in range(3):
        for number in range(64):
            publish(branch, (batch, number), (str(batch), number))
        branch.wait(TREE_IDLE + 1)
    assert len(sent(publish(branch, "last", ("last", 0)), Root)) == 1


def test_invented_roots_leave_room_for_our_own_tree() -> None:
    """Trees that never carried a message don't count."""
    branch = Branch("liar", "b")
    invented = tuple(TreeRoot(("invented", number), 1, 0.0) for number in range(64))
    branch.receive("liar", Root(invented))
    branch.wait(10)
    assert [peer for peer, _ in sent(publish(branch, "m"), Root)] == ["liar", "b"]


def test_one_that_makes_up_64_sources_takes_no_tree_from_others() -> None:
    """Though it publishes a message of each: a neighbour has a share of the trees."""
    branch = Branch("liar", "b")
    for number in range(64):
        branch.receive("liar", root(source=number))
        branch.wait(0.02)
        branch.receive("liar", Gossip(number, 1, "payload", 0, number, number))
    assert [peer for peer, _ in sent(publish(branch, "m"), Root)] == ["liar", "b"]


def test_a_source_beyond_64_makes_no_tree_though_few_neighbours_brought_the_others() -> None:
    branch = Branch("a", "b", "c", "d", "e", "f")
    for number in range(64):
        peer = "ab"[number % 2]
        branch.receive(peer, root(source=number))
        branch.wait(0.02)
        branch.receive(peer, Gossip(number, 1, "payload", 0, number, number))
    assert sent(publish(branch, "m"), Root) == []


def test_a_parent_that_stays_is_asked_again_with_each_root() -> None:
    """The first GRAFT may be lost, or forgotten with the tree."""
    branch = built("a", "b")
    assert ("a", GRAFT_S) in sent(bring(branch, "a", "b", round=2))
