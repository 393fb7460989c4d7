"""A second parent in each tree: the option for protected topics."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.protocol.effects import Effect, NeighborUp
from episub_router.protocol.messages import Gossip, Graft, LinkKind, Prune, Root, TreeRoot
from episub_router.protocol.params import BroadcastParams, EpisubParams
from episub_router.protocol.plumtree.tree import FAILED_AFTER
from tests.protocol.helpers import ME, Branch, ihave, sent
from tests.protocol.plumtree.roots import (
    GRAFT_S,
    PRUNE_S,
    SETTLE,
    bring,
    gossip,
    lose,
    publish,
    root,
)
from tests.protocol.plumtree.test_tree_model import TWO_PARENTS, Overlay

STANDBY_S = Graft(standby=("s",))


def protected(*peers: str, **costs: Any) -> Branch:
    """A node whose neighbours brought ROOT in this order: parent, second parent, two standbys."""
    branch = Branch(*peers, params=BroadcastParams(parents=2))
    bring(branch, *peers, **costs)
    branch.wait(SETTLE)
    return branch


def parents(branch: Branch, source: Any = "s") -> tuple[object, object]:
    tree = branch.machine.trees.get(source)
    assert tree is not None
    first, second = (*tree.parents, None, None)[:2]
    return first, second


def of_parents(effects: list[Effect]) -> list[tuple[Any, Any]]:
    """The GRAFTs and PRUNEs that name sources."""
    return [
        (to, message)
        for to, message in sent(effects)
        if isinstance(message, Graft | Prune) and message.sources
    ]


def push(branch: Branch, *peers: str, id: object) -> list[tuple[Any, Any]]:
    """Each of `peers` pushes the message, after a while, and the standbys announce it; which GRAFTs
    and PRUNEs of parents are sent meanwhile."""
    effects = []
    for peer in peers:
        effects += branch.receive(peer, gossip(id))
        effects += branch.wait(0.05)
    for standby in "cd":
        effects += branch.receive(standby, ihave(id))
    effects += branch.wait(2.0)
    return of_parents(effects)


def test_the_neighbours_that_brought_root_next_push_and_announce() -> None:
    branch = Branch(*"abcde", params=BroadcastParams(parents=2))
    effects = bring(branch, *"abcde")
    effects += branch.wait(SETTLE)
    grafts = sent(effects, Graft)
    assert grafts == [("a", GRAFT_S), ("b", GRAFT_S), ("c", STANDBY_S), ("d", STANDBY_S)]
    assert parents(branch) == ("a", "b")


def test_a_nearer_one_is_preferred() -> None:
    """By the costs of ROOT, as such a way can't lead through us."""
    branch = protected("a", "b", "c", a=0.1, b=0.5, c=0.05)
    assert parents(branch) == ("a", "c")


def test_both_may_push() -> None:
    """Neither is pruned, whoever is first; what they bring is delivered and pushed on once."""
    branch = protected(*"abcde")
    branch.receive("e", GRAFT_S)
    for number, order in enumerate(("ab", "ba", "ab", "ba") * FAILED_AFTER):
        assert push(branch, *order, id=number) == []
    assert parents(branch) == ("a", "b")


@pytest.mark.parametrize(("pusher", "silent"), ["ab", "ba"])
def test_one_that_never_pushes_is_replaced(pusher: str, silent: str) -> None:
    branch = protected(*"abcd")
    sent_in_all = [each for number in range(FAILED_AFTER + 1)
                   for each in push(branch, pusher, id=number)]  # fmt: skip
    assert set(parents(branch)) == {pusher, "c"}
    assert ("c", GRAFT_S) in sent_in_all
    assert (silent, PRUNE_S) in sent_in_all


def pull(branch: Branch, peer: str, id: object) -> list[tuple[Any, Any]]:
    """Neither parent pushes, and `peer` has the message; the GRAFTs and PRUNEs of parents that
    follow."""
    branch.receive(peer, ihave(id))
    asked = (asks for _ in range(14) if (asks := sent(branch.wait(0.05), Graft)))
    assert (peer, Graft((id,))) in next(asked)
    branch.wait(0.4)
    effects = branch.receive(peer, gossip(id))
    effects += branch.wait(SETTLE)
    return of_parents(effects)


def test_where_neither_pushes_both_are_replaced() -> None:
    """By the neighbour that had to bring the messages, though it isn't nearer to the source, and
    the next one. A few messages prove nothing: both may be late."""
    branch = protected(*"abcd", c=1.0)
    for number in range(FAILED_AFTER):
        assert parents(branch) == ("a", "b")
        pull(branch, "c", number)
        branch.receive("d", ihave(number))
    branch.wait(SETTLE)
    assert parents(branch) == ("c", "d")


def test_late_copies_of_the_second_parent_keep_its_place() -> None:
    branch = protected(*"abcd", c=1.0)
    for number in range(4):
        pull(branch, "c", number)
        branch.receive("b", gossip(number))
    assert parents(branch)[1] == "b"


def test_a_second_parent_that_has_to_be_asked_gets_a_graft_again() -> None:
    """The one before may have been lost."""
    branch = protected(*"abcd")
    assert pull(branch, "b", "m") == [("b", GRAFT_S)]
    assert parents(branch) == ("a", "b")


def test_a_neighbour_that_failed_is_not_second_again_by_an_answer() -> None:
    branch = protected(*"abcd")
    for number in range(FAILED_AFTER + 1):
        push(branch, "a", id=number)
    assert parents(branch) == ("a", "c")
    for number in range(2):
        assert ("b", GRAFT_S) not in pull(branch, "b", ("more", number))


def test_a_new_second_parent_owes_nothing_from_before() -> None:
    """Where it takes its place in many trees, whose sources publish at the same moment."""
    branch = Branch(*"abc", params=BroadcastParams(parents=2))
    sources = [f"s{number}" for number in range(FAILED_AFTER + 2)]
    for peer in "abc":
        branch.receive(peer, Root(tuple(TreeRoot(source, 1, 0.0) for source in sources)))
        branch.wait(0.03)
    branch.wait(SETTLE)
    for id, pushers in (("m", "ab"), ("n", "ac")):
        for peer in pushers:
            for source in sources:
                branch.receive(peer, Gossip((id, source), 3, "payload", 7, source, source))
            branch.wait(0.05)
        branch.wait(2)
        if id == "m":
            lose(branch, "b")
            branch.wait(2)
    assert {parents(branch, source) for source in sources} == {("a", "c")}


@pytest.mark.parametrize("feasible", ["c", 0, None])
def test_a_failed_parent_is_replaced_by_a_feasible_neighbour_or_root_is_asked_for(
    feasible: Any,
) -> None:
    """The second parent need not be nearer to the source than we are. Ids of simulated nodes are
    numbers, and 0 is one."""
    branch = protected("a", "b", b=5.0)
    if feasible is not None:
        branch.handle(NeighborUp(feasible, LinkKind.RANDOM))
        branch.receive(feasible, root(cost=0.04))
    effects = []
    for number in range(FAILED_AFTER + 1):
        effects += branch.receive("b", gossip(number))
        effects += branch.wait(2.0)
    assert parents(branch)[0] == ("b" if feasible is None else feasible)
    assert any(message.requests for _, message in sent(effects, Root)) == (feasible is None)


def test_a_source_has_no_second_parent() -> None:
    """After a restart its neighbours offer it its own tree of before."""
    branch = Branch(*"abc", params=BroadcastParams(parents=2))
    for peer in "abc":
        branch.receive(peer, root(round=5, source=ME))
        branch.wait(0.03)
    branch.wait(SETTLE)
    assert parents(branch, ME) == ("a", "b")
    publish(branch, "m")
    assert parents(branch, ME) == (None, None)
    assert ("b", Prune(sources=(ME,))) in sent(branch.wait(SETTLE))


def test_a_node_without_parent_takes_the_first_that_may_be_one() -> None:
    branch = Branch("a", "e", params=BroadcastParams(parents=2))
    bring(branch, "a")
    branch.wait(SETTLE)
    branch.receive("e", GRAFT_S)
    lose(branch, "a")
    branch.handle(NeighborUp("c", LinkKind.RANDOM))
    branch.receive("c", root(cost=0.2))
    branch.receive("e", PRUNE_S)
    branch.wait(SETTLE)
    assert parents(branch) == ("c", None)


def test_a_lost_parent_is_replaced_by_the_second() -> None:
    branch = protected(*"abcd")
    lose(branch, "a")
    assert parents(branch)[0] == "b"
    assert ("c", GRAFT_S) in sent(branch.wait(SETTLE))
    assert parents(branch) == ("b", "c")
    lose(branch, "c")
    branch.wait(SETTLE)
    assert parents(branch) == ("b", "d")


def test_two_may_be_each_other_s_second_parent() -> None:
    """Each gets what the other's parent brings, at the price of two payloads each, as elsewhere.
    After the next ROOT they look for others first."""
    branch = protected(*"abcd")
    branch.receive("b", GRAFT_S)
    assert of_parents(branch.wait(SETTLE)) == []
    assert parents(branch) == ("a", "b")
    assert [to for to, _ in sent(branch.receive("a", gossip("m")), Gossip)] == ["b"]
    assert of_parents(branch.receive("b", gossip("m"))) == []
    effects = bring(branch, *"abcd", round=2)
    effects += branch.wait(SETTLE)
    assert parents(branch) == ("a", "c")
    assert ("b", PRUNE_S) in of_parents(effects)


def test_two_with_no_other_neighbour_come_to_rest() -> None:
    """A hostile neighbour made the ROOT up."""
    overlay = Overlay({(0, 1): 0.01, (0, 2): 0.011, (1, 2): 0.01}, 1, 0.0, 0.0, TWO_PARENTS)
    overlay.run(1)
    for node in (1, 2):
        overlay.at(overlay.now, node, (0, Root((TreeRoot("x", 1, 0.0),))))
    overlay.run(20)
    assert {machine.next_deadline() for machine in overlay.machines.values()} == {float("inf")}


def test_the_second_parent_gets_a_graft_again_with_each_root() -> None:
    """The last one may have been lost."""
    branch = protected(*"abc")
    effects = bring(branch, *"abc", round=2)
    effects += branch.wait(SETTLE)
    assert sent(effects, Graft).count(("b", GRAFT_S)) == 1


def test_another_source_s_message_goes_up_to_both() -> None:
    branch = protected(*"abcd")
    branch.receive("d", GRAFT_S)
    effects = branch.receive("d", Gossip("m", 3, "payload", 7, "t", "s"))
    assert [peer for peer, _ in sent(effects, Gossip)] == ["a", "b"]


def test_one_or_two() -> None:
    with pytest.raises(ValueError, match="parents must be 1 or 2: 3"):
        BroadcastParams(parents=3)
    with pytest.raises(ValueError, match="parents = 2 needs source_trees"):
        BroadcastParams(parents=2, source_trees=0)
    assert EpisubParams().protected().broadcast.parents == 2


def test_a_child_that_leaves_may_become_the_second_parent() -> None:
    branch = protected("a")
    branch.receive("a", root(round=2))
    branch.handle(NeighborUp("b", LinkKind.RANDOM))
    branch.receive("b", root(round=2))
    branch.receive("b", GRAFT_S)
    branch.wait(SETTLE)
    assert parents(branch) == ("a", None)
    branch.receive("b", PRUNE_S)
    assert ("b", GRAFT_S) in sent(branch.wait(SETTLE))
    assert parents(branch) == ("a", "b")
