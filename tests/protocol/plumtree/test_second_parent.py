"""A second parent in each tree: the option for protected topics."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.protocol.effects import NeighborUp
from episub_router.protocol.messages import Gossip, Graft, LinkKind, Prune
from episub_router.protocol.params import BroadcastParams, EpisubParams
from episub_router.protocol.standing.failures import FAILED_AFTER
from tests.protocol.helpers import Branch, ihave, sent
from tests.protocol.plumtree.roots import GRAFT_S, PRUNE_S, SETTLE, bring, lose, root

STANDBY_S = Graft(standby=("s",))


def gossip(id: object, hops: int = 3) -> Gossip:
    return Gossip(id, hops, "payload", 7, "s", "s")


def protected(*peers: str, **costs: Any) -> Branch:
    """A node whose neighbours brought ROOT in this order: parent, second parent, two standbys."""
    branch = Branch(*peers, params=BroadcastParams(parents=2))
    bring(branch, *peers, **costs)
    branch.wait(SETTLE)
    return branch


def parents(branch: Branch) -> tuple[object, object]:
    tree = branch.machine.trees.get("s")
    assert tree is not None
    return tree.parent, tree.second


def push(branch: Branch, *peers: str, id: object) -> list[object]:
    """Each of `peers` pushes the message, after a while, and the standbys announce it; which GRAFTs
    and PRUNEs are sent meanwhile."""
    effects = []
    for peer in peers:
        effects += branch.receive(peer, gossip(id))
        effects += branch.wait(0.05)
    for standby in "cd":
        effects += branch.receive(standby, ihave(id))
    effects += branch.wait(2.0)
    return [
        (peer, message) for peer, message in sent(effects) if isinstance(message, Graft | Prune)
    ]


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
    branch = protected(*"abcd")
    branch.receive("d", GRAFT_S)
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


def test_messages_in_quick_succession_prove_nothing() -> None:
    """The second parent's copies are still under way."""
    branch = protected(*"abcd")
    for number in range(2 * FAILED_AFTER):
        branch.receive("a", gossip(number))
        branch.wait(0.01)
    for number in range(2 * FAILED_AFTER):
        branch.receive("b", gossip(number))
    assert push(branch, "a", "b", id="after") == []
    assert parents(branch) == ("a", "b")


def test_a_message_that_neither_pushed_makes_its_bringer_second_parent() -> None:
    branch = protected(*"abcd")
    branch.receive("c", ihave("m"))
    assert ("c", Graft(("m",))) in sent(branch.wait(0.7))
    effects = branch.receive("c", gossip("m"))
    effects += branch.wait(SETTLE)
    assert ("c", GRAFT_S) in sent(effects)
    assert ("b", PRUNE_S) in sent(effects)
    assert parents(branch) == ("a", "c")


def test_a_lost_parent_is_replaced_by_the_second() -> None:
    branch = protected(*"abcd")
    lose(branch, "a")
    assert parents(branch)[0] == "b"
    assert ("c", GRAFT_S) in sent(branch.wait(SETTLE))
    assert parents(branch) == ("b", "c")
    lose(branch, "c")
    branch.wait(SETTLE)
    assert parents(branch) == ("b", "d")


@pytest.mark.parametrize(("hops", "left"), [(1, False), (2, False), (3, True)])
def test_of_two_that_are_each_other_s_second_parent_the_one_ahead_pushes(
    hops: int, left: bool
) -> None:
    """It has fewer links to the source, or as many and the smaller id."""
    branch = Branch(*"abcd", params=BroadcastParams(parents=2))
    branch.receive("a", root())
    branch.receive("b", root(hops=hops))
    bring(branch, *"cd")
    branch.wait(SETTLE)
    branch.receive("b", GRAFT_S)
    assert (("b", PRUNE_S) in sent(branch.wait(SETTLE))) == left
    assert parents(branch) == ("a", "c" if left else "b")
    pushed_to = [peer for peer, _ in sent(branch.receive("a", gossip("m")), Gossip)]
    assert pushed_to == (["b"] if left else [])


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
    assert EpisubParams().protected().broadcast.parents == 2


def test_a_child_that_leaves_may_become_the_second_parent() -> None:
    branch = protected("a")
    branch.receive("a", root(round=2))
    branch.handle(NeighborUp("b", LinkKind.RANDOM))
    branch.receive("b", root(round=2, hops=2))
    branch.receive("b", GRAFT_S)
    branch.wait(SETTLE)
    assert parents(branch) == ("a", None)
    branch.receive("b", PRUNE_S)
    assert ("b", GRAFT_S) in sent(branch.wait(SETTLE))
    assert parents(branch) == ("a", "b")
