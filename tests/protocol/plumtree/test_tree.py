"""One node's part in its trees: feasibility, age, service, bounds."""

from __future__ import annotations

import pytest

from episub_router.protocol.plumtree.tree import (
    FAILED_AFTER,
    MAX_TREES,
    TREE_IDLE,
    Offer,
    Tree,
    Trees,
)

SETUP = 0.5
"""Seconds from ROOT until a tree is used."""


def offered(*costs: tuple[str, float], cost: float = 0.1) -> Tree:
    """A tree at `cost` seconds from its source, and what the neighbours offer, in order."""
    tree = Tree("s")
    tree.cost = cost
    tree.offers = {peer: Offer(0.0, theirs) for peer, theirs in costs}
    return tree


def proven(trees: Trees, source: object, root_at: float = 0.0) -> Tree:
    """The tree of `source`, along which a message has come."""
    tree = trees.use(source)
    tree.note_root(root_at)
    tree.proven = True
    return tree


def test_only_nearer_neighbours_are_feasible() -> None:
    """Costs fall from each node to its parent, so that no parents form a cycle."""
    tree = offered(("near", 0.05), ("same", 0.1), ("far", 0.2), ("child", 0.05))
    tree.children["child"] = None
    assert [peer for peer in (*tree.offers, "unknown") if tree.is_feasible(peer)] == ["near"]


@pytest.mark.parametrize(
    ("gone", "next_parent"),
    [
        ((), "second"),
        (("second",), "third"),
        (("second", "third"), "first"),  # it may close a cycle: better than nobody
        (("first", "second", "third"), None),
    ],
)
def test_the_next_parent_is_the_first_feasible_neighbour(
    gone: tuple[str, ...], next_parent: str | None
) -> None:
    tree = offered(("first", 0.3), ("child", 0.0), ("second", 0.09), ("third", 0.0))
    tree.children["child"] = None
    links = [peer for peer in tree.offers if peer not in gone]
    assert tree.next_parent(links) == next_parent


def test_a_tree_is_used_a_little_after_its_first_root_and_until_it_is_idle() -> None:
    """GRAFTs have to arrive first; later ROOTs don't interrupt it."""
    tree = Tree("s")
    assert not tree.stands(0.0)
    assert not tree.is_fresh(0.0)
    tree.note_root(10.0)
    assert tree.is_fresh(10.0)
    assert [tree.stands(10.0 + after) for after in (0.0, SETUP - 0.01, SETUP)] == [
        False, False, True,
    ]  # fmt: skip
    tree.note_root(30.0)
    assert tree.stands(30.0)
    assert tree.stands(30.0 + TREE_IDLE)
    assert not tree.stands(30.1 + TREE_IDLE)
    assert not tree.is_fresh(30.1 + TREE_IDLE)
    tree.note_root(200.0)
    assert not tree.stands(200.0)
    assert tree.stands(200.0 + SETUP)


def test_a_root_starts_the_count_of_messages() -> None:
    tree = Tree("s")
    tree.carried = 5
    tree.note_root(1.0)
    assert tree.carried == 0


def test_a_tree_that_was_over_has_to_prove_itself_again() -> None:
    """Its source may be gone, and newcomers offer each other its last ROOT."""
    tree = proven(Trees(), "s")
    tree.note_root(TREE_IDLE)
    assert tree.proven
    tree.note_root(3 * TREE_IDLE)
    assert not tree.proven


def test_trees_are_bounded_and_the_least_recently_used_is_forgotten() -> None:
    trees = Trees()
    for source in range(MAX_TREES):
        proven(trees, source)
    trees.use(0)
    trees.use("new")
    assert [*trees] == [*range(2, MAX_TREES), 0, "new"]
    assert trees.get(1) is None


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


def test_the_nearest_source_has_a_tree_that_stands_and_a_parent_that_is_there() -> None:
    trees = Trees()
    for source, cost, parents, at in [
        ("far", 0.2, ["p"], 0.0),
        ("near", 0.1, ["p"], 0.0),
        ("nearer, parent gone", 0.05, ["gone"], 0.0),
        ("nearer, no parent", 0.04, [], 0.0),
        ("nearer, new", 0.03, ["p"], 9.9),
        ("nearer, unproven", 0.01, ["p"], 0.0),
    ]:
        tree = proven(trees, source, at)
        tree.cost, tree.parents, tree.proven = cost, [*parents], "unproven" not in source
    assert trees.nearest({"p"}, 10.0) is trees.get("near")
    assert trees.nearest({"p"}, 11.0) is trees.get("nearer, new")
    assert trees.nearest({"q"}, 10.0) is None
    trees.clear()
    assert len(trees) == 0
    assert trees.nearest({"p"}, 10.0) is None


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
