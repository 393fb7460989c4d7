"""One node's table of source trees: feasibility, age, bounds."""

from __future__ import annotations

import pytest

from episub_router.protocol.plumtree.source_tree import (
    TREE_IDLE,
    RootOffer,
    SourceTree,
    SourceTrees,
)

SETUP = 0.5
"""Seconds from ROOT until a tree is used."""


def offered(*costs: tuple[str, float], cost: float = 0.1) -> SourceTree:
    """A tree at `cost` seconds from its source, and what the neighbours offer, in order."""
    tree = SourceTree()
    tree.cost = cost
    tree.offers = {peer: RootOffer(0.0, 1, theirs) for peer, theirs in costs}
    return tree


def test_only_nearer_neighbours_are_feasible() -> None:
    """Costs fall from each node to its parent, so that no parents form a circle."""
    tree = offered(("near", 0.05), ("same", 0.1), ("far", 0.2), ("child", 0.05))
    tree.children["child"] = None
    assert [peer for peer in (*tree.offers, "unknown") if tree.is_feasible(peer)] == ["near"]


@pytest.mark.parametrize(
    ("gone", "next_parent"),
    [
        ((), "second"),
        (("second",), "third"),
        (("second", "third"), "first"),  # it may close a circle: better than nobody
        (("first", "second", "third"), None),
    ],
)
def test_the_next_parent_is_the_first_feasible_neighbour(
    gone: tuple[str, ...], next_parent: str | None
) -> None:
    tree = offered(("first", 0.3), ("child", 0.0), ("second", 0.09), ("third", 0.0))
    tree.children["child"] = None
    neighbors = {*tree.offers} - {*gone}
    assert tree.next_parent(neighbors) == next_parent


def test_a_tree_is_used_a_little_after_its_first_root_and_until_it_is_idle() -> None:
    """GRAFTs have to arrive first; later ROOTs don't interrupt it."""
    trees = SourceTrees(2)
    tree = trees.use("s")
    assert not trees.stands(tree, 0.0)
    assert not trees.is_fresh(tree, 0.0)
    trees.note_root(tree, 10.0)
    assert trees.is_fresh(tree, 10.0)
    assert [trees.stands(tree, 10.0 + after) for after in (0.0, SETUP - 0.01, SETUP)] == [
        False, False, True,
    ]  # fmt: skip
    trees.note_root(tree, 30.0)
    assert trees.stands(tree, 30.0)
    assert trees.stands(tree, 30.0 + TREE_IDLE)
    assert not trees.stands(tree, 30.1 + TREE_IDLE)
    assert not trees.is_fresh(tree, 30.1 + TREE_IDLE)
    trees.note_root(tree, 200.0)
    assert not trees.stands(tree, 200.0)
    assert trees.stands(tree, 200.0 + SETUP)


def test_a_root_starts_the_count_of_messages() -> None:
    trees = SourceTrees(2)
    tree = trees.use("s")
    tree.carried = 5
    trees.note_root(tree, 1.0)
    assert tree.carried == 0


def test_trees_are_bounded_and_the_least_recently_used_is_forgotten() -> None:
    """Twice as many are kept as may stand."""
    trees = SourceTrees(3)
    for source in range(6):
        trees.use(source).proven = True
    trees.use(0)
    trees.use("new")
    assert len(trees) == 6
    assert [source for source, _ in trees.items()] == [2, 3, 4, 5, 0, "new"]
    assert trees.get(1) is None


def test_trees_that_never_carried_a_message_are_forgotten_first() -> None:
    """Anyone can send ROOTs of sources that there are not; they don't push out others."""
    trees = SourceTrees(3)
    for source in "abc":
        trees.use(source).proven = True
    own = trees.use("own")
    own.own = True
    for number in range(1000):
        trees.use(number)
    assert len(trees) == 6
    assert {source for source, tree in trees.items() if tree.proven} == {*"abc"}
    assert trees.get("own") is own


def test_our_own_trees_are_kept() -> None:
    trees = SourceTrees(2)
    trees.use("own").own = True
    for number in range(20):
        trees.use(number).proven = True
    assert trees.get("own") is not None
    assert len(trees) == 4


def test_room_is_for_trees_with_a_recent_root() -> None:
    trees = SourceTrees(2)
    for source in "ab":
        assert trees.has_room(0.0)
        tree = trees.use(source)
        tree.proven = True
        trees.note_root(tree, 0.0)
        trees.use(f"no root of {source}")
        trees.note_root(trees.use(f"no message of {source}"), 0.0)
    assert not trees.has_room(1.0)
    assert not trees.has_room(TREE_IDLE)
    assert trees.has_room(TREE_IDLE + 0.1)


def test_the_nearest_source_has_a_tree_that_stands_and_a_parent_that_is_there() -> None:
    trees = SourceTrees(9)
    for source, cost, parent, at in [
        ("far", 0.2, "p", 0.0),
        ("near", 0.1, "p", 0.0),
        ("nearer, parent gone", 0.05, "gone", 0.0),
        ("nearer, no parent", 0.04, None, 0.0),
        ("nearer, new", 0.03, "p", 9.9),
        ("nearer, unproven", 0.01, "p", 0.0),
    ]:
        tree = trees.use(source)
        trees.note_root(tree, at)
        tree.cost, tree.parent, tree.proven = cost, parent, "unproven" not in source
    assert trees.nearest({"p"}, 10.0) == "near"
    assert trees.nearest({"p"}, 11.0) == "nearer, new"
    assert trees.nearest({"q"}, 10.0) is None
    trees.clear()
    assert len(trees) == 0
    assert trees.nearest({"p"}, 10.0) is None
