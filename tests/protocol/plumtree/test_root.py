"""ROOT: the flood, the parents and standbys that a node chooses, lost parents, requests, bounds."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from episub_router.protocol.effects import DownReason, DropReason, Effect, NeighborDown, NeighborUp
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
from episub_router.protocol.plumtree.round_proofs import ROUNDS, earlier, own_proof
from episub_router.protocol.plumtree.source_trees import ROOT_INTERVAL
from episub_router.protocol.plumtree.tree import (
    FAILED_AFTER,
    MAX_TREES,
    TREE_IDLE,
    Tree,
    Trees,
)
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import ME, Branch, drops, ihave, sent
from tests.protocol.plumtree.roots import (
    GRAFT_ME,
    GRAFT_S,
    PRUNE_S,
    SETTLE,
    UNKNOWN,
    WINDOW,
    ask,
    bring,
    built,
    gossip,
    lose,
    publish,
    pull,
    root,
)

PROOFS = ["8a851ff82ee7048a", "823c2272576f4041"]
"""1 and 120 rounds before one with the proof 0001020304050607."""

# Flood


def test_the_first_copy_of_a_round_is_flooded() -> None:
    """With what the link costs, half its RTT; not to the neighbour it came from."""
    branch = Branch("a", "b", "c")
    branch.rtts["a"] = 0.03
    on = root(cost=0.2 + 0.015)
    assert sent(branch.receive("a", root(cost=0.2))) == [("b", on), ("c", on)]
    assert branch.receive("b", root()) == []
    on = root(round=2, cost=UNKNOWN)
    assert sent(branch.receive("b", root(round=2))) == [("a", on), ("c", on)]


def two_roots(cost: float) -> Root:
    return Root((TreeRoot("s", 1, cost), TreeRoot("t", 1, cost)))


def test_several_trees_share_messages() -> None:
    """Those that are flooded, and those that ask standbys, and others once the parent is lost."""
    branch = Branch("a", "b")
    ((peer, on),) = sent(branch.receive("a", two_roots(0.1)))
    assert (peer, [line.source for line in on.roots]) == ("b", ["s", "t"])
    assert sent(branch.wait(WINDOW), Graft) == [("a", GRAFT_S), ("a", Graft(sources=("t",)))]
    branch.receive("b", two_roots(0.0))
    assert sent(branch.wait(SETTLE)) == [("b", Graft(standby=("s", "t")))]
    assert sent(lose(branch, "a"), Graft) == [("b", Graft(sources=("s", "t")))]


@pytest.mark.parametrize("round", [1, 2])
def test_known_and_stale_rounds_change_nothing(round: int) -> None:
    branch = Branch("a", "b")
    branch.receive("a", root(round=2))
    branch.wait(SETTLE)
    assert branch.receive("a", root(round)) == []
    assert branch.receive("b", root(round=1)) == []
    assert branch.machine.next_deadline() == NEVER


def test_a_source_that_lost_its_count_is_believed_once_its_tree_is_old() -> None:
    branch = Branch("a", "b")
    branch.receive("a", root(round=1000))
    branch.wait(TREE_IDLE - 1)
    assert sent(branch.receive("b", root(round=1))) == []
    branch.wait(2)
    assert [peer for peer, _ in sent(branch.receive("b", root(round=1)))] == ["a"]
    assert sent(branch.wait(WINDOW), Graft) == [("b", GRAFT_S)]


def test_nobody_else_is_the_root_of_our_own_tree() -> None:
    branch = Branch("a", "b")
    publish(branch, "m")
    assert branch.receive("a", root(round=99, source=ME)) == []
    assert sent(branch.wait(SETTLE), Graft) == []


# The parent


def test_the_first_copy_makes_the_parent() -> None:
    branch = Branch("a", "b", "c")
    assert sent(bring(branch, "b", "a", "c", every=0.004), Graft) == [("b", GRAFT_S)]


@pytest.mark.parametrize(("after", "parent"), [(0.8, "near"), (1.2, "far")])
def test_a_much_nearer_neighbour_right_after_it_is_the_parent(after: float, parent: str) -> None:
    branch = Branch("far", "near")
    branch.rtts.update(far=0.080, near=0.005)
    branch.receive("far", root())
    grafts = sent(branch.wait(after * 0.005), Graft)
    branch.receive("near", root())
    assert grafts + sent(branch.wait(WINDOW), Graft) == [(parent, GRAFT_S)]


@pytest.mark.parametrize(("near", "cost"), [(0.021, 0.03), (0.005, 0.05)])
def test_it_must_be_much_nearer_and_feasible(near: float, cost: float) -> None:
    branch = Branch("far", "near")
    branch.rtts.update(far=0.080, near=near)
    branch.receive("far", root())
    branch.receive("near", root(cost=cost))
    assert sent(branch.wait(WINDOW), Graft) == [("far", GRAFT_S)]


def test_a_neighbour_lost_before_the_choice_is_not_the_parent() -> None:
    branch = Branch("a", "b")
    branch.receive("a", root())
    branch.receive("b", root())
    lose(branch, "a")
    assert sent(branch.wait(WINDOW), Graft) == [("b", GRAFT_S)]
    branch.receive("b", root(round=2))
    lose(branch, "b")
    assert sent(branch.wait(1)) == []


def test_the_former_parent_is_left_after_the_new_one_pushes() -> None:
    """Make before break: GRAFT at once, PRUNE when what is in flight has arrived; meanwhile the
    former parent's copies are welcome."""
    branch = built("a", "b")
    assert sent(bring(branch, "b", "a", round=2), Graft) == [("b", GRAFT_S)]
    assert sent(branch.receive("a", gossip("m"))) == []
    started = branch.now
    effects: list[Effect] = []
    while not sent(effects, Prune):
        effects = branch.wait(0.01)
        assert branch.now < started + 2
    assert branch.now >= started + 0.4
    assert sent(effects, Prune) == [("a", PRUNE_S)]
    assert sent(branch.wait(5), Prune) == []


def test_a_former_parent_that_is_taken_back_is_not_left() -> None:
    branch = built("a", "b")
    bring(branch, "b", "a", round=2)
    assert sent(bring(branch, "a", "b", round=3), Graft) == [("a", GRAFT_S)]
    assert sent(branch.wait(5), Prune) == [("b", PRUNE_S)]


def test_the_parent_stays_when_it_is_hardly_later() -> None:
    """Hysteresis, or jitter would change the tree with each ROOT."""
    branch = built("a", "b")
    effects = bring(branch, "b", "a", round=2, every=0.004) + branch.wait(5)
    assert ("b", GRAFT_S) not in sent(effects)
    assert sent(effects, Prune) == []


def test_the_parent_doesn_t_stay_when_it_isn_t_feasible_or_is_much_farther() -> None:
    branch = built("a", "b")
    branch.receive("b", root(round=2))
    branch.receive("a", root(round=2, cost=UNKNOWN + 0.01))
    assert sent(branch.wait(WINDOW), Graft) == [("b", GRAFT_S)]
    branch = built("a", "b")
    branch.rtts.update(a=0.08, b=0.005)
    branch.receive("b", root(round=2))
    branch.receive("a", root(round=2))
    assert sent(branch.wait(WINDOW), Graft) == [("b", GRAFT_S)]


# Standbys


def test_the_next_neighbours_are_asked_to_announce_at_once() -> None:
    branch = Branch("a", "b", "c", "d")
    bring(branch, "a", "b", "c", "d", every=0.03)
    standby = Graft(standby=("s",))
    assert sent(branch.wait(SETTLE)) == [("b", standby), ("c", standby)]


def test_standbys_that_are_no_longer_next_are_released() -> None:
    branch = built("a", "b", "c", "d")
    bring(branch, "a", "d", "c", "b", round=2, every=0.03)
    effects = sent(branch.wait(SETTLE))
    assert effects == [("b", Prune(standby=("s",))), ("d", Graft(standby=("s",)))]


def test_a_standby_that_is_about_as_good_stays() -> None:
    """Or each ROOT would change it."""
    branch = built("a", "b", "c", "d", "e")
    bring(branch, "a", "d", "e", "b", round=2, every=0.008)
    effects = branch.wait(SETTLE)
    assert [peer for peer, _ in sent(effects, Graft)] == ["d"]
    assert sent(effects, Prune) == [("c", Prune(standby=("s",)))]


def test_neither_the_parent_nor_children_are_standbys() -> None:
    branch = Branch("a", "b", "c", "d")
    bring(branch, "a", "b", "c", "d")
    branch.receive("b", GRAFT_S)
    assert [peer for peer, _ in sent(branch.wait(SETTLE))] == ["c", "d"]


@pytest.mark.parametrize(("lost", "grafted"), [("a", [("b", GRAFT_S)]), ("b", [])])
def test_a_standby_that_is_lost_or_becomes_the_parent_is_replaced(
    lost: str, grafted: list[Any]
) -> None:
    branch = built("a", "b", "c", "d")
    assert sent(lose(branch, lost), Graft) == grafted
    assert sent(branch.wait(SETTLE)) == [("d", Graft(standby=("s",)))]


# New links


def test_the_specification_s_proofs() -> None:
    known = bytes(range(8))
    assert [earlier(known, rounds).hex() for rounds in (1, 120)] == PROOFS


@pytest.mark.parametrize("proof", [b"", bytes(8), own_proof(b"liar", "s", 2)])
def test_a_round_that_its_source_has_not_sent_is_ignored(proof: bytes) -> None:
    """A member that claimed one drew the tree to itself, and the source's own counted as old."""
    branch = built("a", "b")
    for ahead in (1, 2, 1000, ROUNDS - 1, 2**63):
        assert branch.receive("b", Root((TreeRoot("s", 1 + ahead, 0.0, proof),))) == []
    assert [peer for peer, _ in sent(branch.receive("a", root(round=2)), Root)] == ["b"]


def test_a_known_proof_under_another_number_is_no_new_round() -> None:
    branch = built("a", "b")
    (known,) = root().roots
    assert branch.receive("b", Root((known._replace(round=2),))) == []
    assert [peer for peer, _ in sent(branch.receive("a", root(round=2)), Root)] == ["b"]


def test_after_the_last_round_of_a_chain_the_next_chain_is_believed() -> None:
    branch = Branch("a", "b")
    for round in (ROUNDS - 1, ROUNDS + 3, ROUNDS + 4):
        assert len(sent(branch.receive("a", root(round)), Root)) == 1
        branch.wait(SETTLE)
    assert branch.receive("b", root(ROUNDS - 1)) == []


def test_another_chain_is_believed_once_the_parent_has_missed_a_message() -> None:
    """A liar that was first kept the source's own rounds away for as long as it sent some."""
    branch = Branch("liar", "b", "c")
    made_up = TreeRoot("s", 1, 0.0, own_proof(b"liar", "s", 1))
    branch.receive("liar", Root((made_up,)))
    branch.wait(SETTLE)
    assert branch.receive("b", root()) == []
    pull(branch, "b", "m")
    branch.wait(1)
    assert {peer for peer, _ in sent(branch.receive("b", root()), Root)} == {"liar", "c"}
    assert branch.receive("liar", Root((made_up._replace(round=2),))) == []
    assert sent(branch.wait(WINDOW), Graft) == [("b", GRAFT_S)]


def test_the_source_itself_is_believed_whatever_was_heard_first() -> None:
    """A network that a liar's ROOT reached first kept to it for minutes: no neighbour of the source
    knew better."""
    branch = Branch("liar", "s", "c")
    made_up = Root((TreeRoot("s", 2, 0.0, own_proof(b"liar", "s", 2)),))
    branch.receive("liar", made_up)
    assert {peer for peer, _ in sent(branch.receive("s", root()), Root)} == {"liar", "c"}
    assert branch.receive("liar", made_up) == []
    assert sent(branch.wait(WINDOW), Graft) == [("s", GRAFT_S)]


def test_a_node_without_a_parent_believes_any_chain() -> None:
    branch = built("a", "b")
    lose(branch, "a")
    lose(branch, "b")
    branch.handle(NeighborUp("c", LinkKind.RANDOM))
    branch.wait(1)
    another = Root((TreeRoot("s", 1, 0.0, own_proof(b"another", "s", 1)),))
    branch.receive("c", another)
    assert sent(branch.wait(WINDOW), Graft) == [("c", GRAFT_S)]


def test_no_miss_brings_an_earlier_round_back() -> None:
    """A neighbour that was cut off offers the round that it knew."""
    branch = built("a", "b", "c")
    bring(branch, "a", "b", round=100)
    pull(branch, "b", "m")
    branch.wait(1)
    assert branch.receive("c", root()) == []
    assert [peer for peer, _ in sent(branch.receive("c", root(round=101)), Root)] == ["a", "b"]


def test_a_new_link_is_offered_the_trees() -> None:
    branch = built("a")
    # One that carries nothing may be a dead source's.
    assert sent(branch.handle(NeighborUp("newer", LinkKind.RANDOM)), Root) == []
    branch.handle(NeighborDown("newer", DownReason.ENDED))
    branch.receive("a", gossip("from s"))
    # The next round before its next message: of several sources each publishes rarely.
    bring(branch, "a", round=2)
    ((_, own),) = sent(publish(branch, "m"), Root)
    ((peer, offer),) = sent(branch.handle(NeighborUp("new", LinkKind.RANDOM)))
    assert peer == "new"
    assert set(offer.roots) == {*root(2, UNKNOWN).roots, *own.roots}


def test_trees_without_a_way_to_the_source_and_old_ones_are_not_offered() -> None:
    branch = built("a")
    lose(branch, "a")
    assert sent(branch.handle(NeighborUp("b", LinkKind.RANDOM)), Root) == []
    branch = built("a")
    branch.receive("a", gossip("m"))
    branch.wait(TREE_IDLE + 1)
    assert sent(branch.handle(NeighborUp("b", LinkKind.RANDOM)), Root) == []
    bring(branch, "a", round=2)  # It has to carry a message again.
    assert sent(branch.handle(NeighborUp("c", LinkKind.RANDOM)), Root) == []


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


def test_a_parent_that_asks_to_be_pushed_to_is_replaced() -> None:
    """It lost its own parent: it has nothing to push."""
    branch = built("a", "b", a=0.1)
    assert sent(branch.receive("a", GRAFT_S)) == [("b", GRAFT_S)]


# Requests


def test_a_request_goes_to_the_parent_once_a_round() -> None:
    branch = built("a", "b", "c")
    assert sent(branch.receive("b", ask(1))) == [("a", ask(1))]
    # Not sent back to the parent, nor for sources that nobody knows, or of strangers.
    for peer, unheard in (("c", ask(1)), ("a", ask(1)), ("b", ask(1, "unknown"))):
        assert branch.receive(peer, unheard) == []
    assert drops(branch.receive("x", ask(1))) == [DropReason.NOT_NEIGHBOR]
    bring(branch, "a", round=2)
    assert branch.receive("a", ask(2)) == []
    assert branch.receive("b", ask(1)) == []
    assert sent(branch.receive("b", ask(2))) == [("a", ask(2))]


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
    effects = branch.receive("b", gossip("m"))
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


def roots_of_a_source(messages: int, every: float) -> list[float]:
    """When a source with a child sends ROOT."""
    branch = Branch("a")
    at = []
    for id in range(messages):
        if sent(publish(branch, id), Root):
            at.append(branch.now)
        branch.receive("a", GRAFT_ME)
        branch.wait(every)
    return at


def test_a_busy_source_sends_root_every_interval() -> None:
    at = roots_of_a_source(messages=500, every=0.2)
    interval = ROOT_INTERVAL
    assert len(at) == 5
    assert all(interval <= b - a <= interval + 1 for a, b in pairwise(at))


@pytest.mark.parametrize("every", [31, 45, 59, 70, 119])
def test_a_quiet_source_keeps_its_tree_with_few_roots(every: float) -> None:
    """Fewer than three messages since the last one: before the next message finds the tree gone,
    and not in the first half of its time."""
    at = roots_of_a_source(messages=20, every=every)
    assert all(TREE_IDLE / 2 <= b - a <= TREE_IDLE for a, b in pairwise(at))


def test_without_a_source_or_with_no_trees_no_root_is_sent() -> None:
    assert sent(Branch("a").publish("m"), Root) == []
    branch = Branch("a", "b", params=BroadcastParams(source_trees=0))
    assert sent(publish(branch, "m"), Root) == []
    branch.wait(TREE_IDLE)
    assert sent(publish(branch, "n"), Root) == []


# Bounds


def test_no_more_than_64_trees_stand() -> None:
    branch = Branch("a")
    for source in range(64):
        branch.receive("a", root(source=source))
        branch.receive("a", gossip(source, 1, source, source))
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
    push = gossip("m")
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
    for batch in range(2):
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


@pytest.mark.parametrize(("bringers", "reached"), [("a", ["a", "b"]), ("ab", [])])
def test_one_that_makes_up_64_sources_takes_no_tree_from_others(
    bringers: str, reached: list[str]
) -> None:
    """Though it publishes a message of each: a neighbour has a share of the trees."""
    branch = Branch("a", "b")
    for number in range(64):
        peer = bringers[number % len(bringers)]
        branch.receive(peer, root(source=number))
        branch.wait(0.02)
        branch.receive(peer, gossip(number, 1, number, number))
    assert [peer for peer, _ in sent(publish(branch, "m"), Root)] == reached


def test_a_parent_that_stays_is_asked_again_with_each_root() -> None:
    """The first GRAFT may be lost, or forgotten with the tree."""
    branch = built("a", "b")
    assert ("a", GRAFT_S) in sent(bring(branch, "a", "b", round=2))


# Which trees are kept


def proven(trees: Trees, source: object, root_at: float = 0.0) -> Tree:
    """The tree of `source`, along which a message has come."""
    tree = trees.use(source)
    tree.note_root(root_at)
    tree.proven = True
    return tree


def test_trees_that_never_carried_a_message_are_forgotten_first() -> None:
    """Anyone can send ROOTs of sources that there are not; they don't push out others."""
    trees = Trees()
    for source in "abc":
        proven(trees, source)
    own = trees.use("own")
    own.own = True
    for number in range(1000):
        trees.use(number)
    assert len(trees) == MAX_TREES
    assert {source for source, tree in trees.items() if tree.proven} == {*"abc"}
    assert trees.get("own") is own


def test_our_own_trees_are_kept() -> None:
    trees = Trees()
    trees.use("own").own = True
    for number in range(2 * MAX_TREES):
        proven(trees, number)
    assert trees.get("own") is not None
    assert len(trees) == MAX_TREES


def test_of_many_trees_those_of_the_neighbour_that_brought_most_are_forgotten() -> None:
    """And they count as its share alone: one member can make up any number of sources, and publish
    messages of each."""
    trees = Trees()
    for number in range(10):
        proven(trees, ("true", number)).parents = ["honest"]
    for number in range(1000):
        proven(trees, ("made up", number)).parents = ["liar"]
    assert sum(trees.get(("true", number)) is not None for number in range(10)) == 10
    assert trees.count_proven(8, 1.0) == 16


# Service


def failed(tree: Tree, peer: str, at: float) -> float:
    """`peer` misses a message each second from `at` on until it fails; when."""
    for second in range(FAILED_AFTER):
        if tree.note_missed(peer, at + second):
            return at + second
    raise AssertionError


def test_who_pushes_as_the_parent_fails_is_the_parent() -> None:
    """It isn't feasible, and was pruned as if there were another."""
    branch = built("a")
    branch.handle(NeighborUp("far", LinkKind.RANDOM))
    for m in range(FAILED_AFTER - 1):
        assert ("far", PRUNE_S) in sent(branch.receive("far", gossip(m)))
        branch.wait(1)
    assert sent(branch.receive("far", gossip("last"))) == []
    assert branch.machine.parents(branch.now) == ["far"]


def test_a_neighbour_that_failed_may_be_a_parent_again_after_a_while() -> None:
    tree = Tree("s")
    at = failed(tree, "a", 0.0)
    assert tree.service("a").excluded_until > at + 119.0
    assert tree.service("a").excluded_until <= at + 121.0
    at = failed(tree, "a", 200.0)
    assert tree.service("a").excluded_until > at + 239.0
    assert tree.service("a").excluded_until <= at + 241.0
    tree.forget("a")
    assert not tree.services


def test_many_messages_at_once_fail_nobody() -> None:
    """What it pushes, or announces, is on its way."""
    tree = Tree("s")
    assert not any(tree.note_missed("a", 1.0) for _ in range(20))
    for _ in range(20):
        tree.note_served("a")
    assert not tree.note_missed("a", 9.0)


def test_one_that_serves_one_message_of_six_fails() -> None:
    """What it kept back counts, not how many messages in a row."""
    tree = Tree("s")
    failed_at = []
    for second in range(20):
        if second % 6 == 5:
            tree.note_served("a")
        elif tree.note_missed("a", second):
            failed_at.append(second)
    assert failed_at[0] < 10


def test_one_that_misses_one_message_of_three_serves() -> None:
    tree = Tree("s")
    for second in range(300):
        if second % 3:
            tree.note_served("a")
        else:
            assert not tree.note_missed("a", second)
