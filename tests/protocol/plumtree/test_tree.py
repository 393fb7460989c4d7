"""One node's part in its trees: which are kept, and how neighbours serve them."""

from __future__ import annotations

from episub_router.protocol.plumtree.tree import (
    FAILED_AFTER,
    MAX_TREES,
    TREE_IDLE,
    Tree,
    Trees,
)


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


def test_trees_with_a_recent_root_and_a_message_count() -> None:
    trees = Trees()
    for source in "ab":
        proven(trees, source)
        trees.use(f"no root of {source}")
        trees.use(f"no message of {source}").note_root(0.0)
    assert trees.count_proven(8, 1.0) == trees.count_proven(8, TREE_IDLE) == 2
    assert trees.count_proven(8, TREE_IDLE + 0.1) == 0


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
