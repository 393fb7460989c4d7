"""Parents and standbys that don't do what they were asked to."""

from __future__ import annotations

from episub_router.protocol.messages import Gossip, Graft, Root, TreeRoot
from episub_router.protocol.plumtree.tree import ADOPT_AFTER, FAILED_AFTER
from tests.protocol.helpers import Branch, ihave, sent
from tests.protocol.plumtree.roots import SETTLE, bring, built


def push(branch: Branch, peer: str, id: object, source: str = "s") -> None:
    branch.receive(peer, Gossip(id, 3, "payload", 7, source, source))


def pull(branch: Branch, peer: str, id: object, source: str = "s") -> None:
    """`peer` announces a message, is asked for it and sends it."""
    branch.receive(peer, ihave(id))
    assert (peer, Graft((id,))) in sent(branch.wait(0.7))
    push(branch, peer, id, source)


def parent(branch: Branch, source: str = "s") -> object:
    tree = branch.machine.trees.get(source)
    assert tree is not None
    return tree.parent


def test_a_parent_that_pushed_nothing_is_none_after_the_next_root_either() -> None:
    """It takes part in ROOT as others do, and would be chosen again each time."""
    branch = built("a", "b", "c", a=0.1, b=0.2, c=0.2)
    for id in range(FAILED_AFTER):
        assert parent(branch) == "a"
        pull(branch, "b", id)
    assert parent(branch) == "b"
    assert sent(bring(branch, "a", round=2), Root, Graft) == []
    bring(branch, "c", "b", "a", round=2)
    assert parent(branch) in ("b", "c")
    branch.wait(SETTLE)
    tree = branch.machine.trees.get("s")
    assert tree is not None
    assert "a" not in tree.standbys


def test_a_parent_that_announces_what_it_ought_to_push_is_replaced() -> None:
    """It would keep its place, and each message would come late."""
    branch = built("a", "b", "c", a=0.1)
    for id in range(ADOPT_AFTER):
        pull(branch, "b", id)
        branch.receive("a", ihave(id))
    assert parent(branch) == "b"


def test_a_new_round_counts_from_those_alone_that_have_served() -> None:
    """Who brings ROOT sooner than others, and then pushes only some messages, would be the parent
    again after each round. What it announces of others' messages makes up for what it missed."""
    branch = built("a", "b", "c", a=0.1)
    for id in (-2, 0):
        pull(branch, "b", id)
    assert sent(bring(branch, "a", round=2, a=0.1), Root, Graft) == []
    bring(branch, "b", "a", round=2, a=0.1)
    assert parent(branch) == "b"
    push(branch, "b", 1)
    branch.receive("a", ihave(1))
    bring(branch, "a", round=3, a=0.1)
    assert parent(branch) == "a"


def two_trees() -> Branch:
    """The parent is a for both sources, and b is the next."""
    branch = Branch("a", "b")
    for peer, cost in [("a", 0.1), ("b", 0.2)]:
        branch.receive(peer, Root((TreeRoot("s", 1, cost), TreeRoot("t", 1, cost))))
        branch.wait(0.03)
    branch.wait(SETTLE)
    assert parent(branch, "s") == parent(branch, "t") == "a"
    return branch


def test_one_that_pushes_in_another_tree_is_left_in_one_alone() -> None:
    """It may keep one source's messages from us, or be without them itself."""
    branch = two_trees()
    for id in range(0, 2 * FAILED_AFTER, 2):
        pull(branch, "b", id, "s")
        push(branch, "a", id + 1, "t")
    assert parent(branch, "s") == "b"
    assert parent(branch, "t") == "a"


def test_a_standby_that_announces_nothing_is_replaced() -> None:
    branch = built("a", "b", "c", "d")
    tree = branch.machine.trees.get("s")
    assert tree is not None
    assert tree.standbys == ["b", "c"]
    grafts = []
    for id in range(FAILED_AFTER + 3):
        push(branch, "a", id)
        branch.receive("c", ihave(id))
        grafts += sent(branch.wait(1), Graft)
    assert grafts == [("d", Graft(standby=("s",)))]
    assert tree.standbys == ["c", "d"]
