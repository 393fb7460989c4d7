"""Which trees a node keeps, of more than it may have."""

from __future__ import annotations

from episub_router.protocol.piece_messages import PieceOffer, TreeOffer
from episub_router.protocol.pieces.narrow_tree import MAX_TREES, NarrowTrees
from tests.protocol.pieces.helpers import machine


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
        node.receive("a", PieceOffer((TreeOffer(source(number), 0),)), 0.0)
    assert len(node.trees) == MAX_TREES
    assert 0 < len(node._state.timers) <= MAX_TREES
