"""ROOT: the flood, and the parents and standbys that a node chooses by it."""

from __future__ import annotations

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
from episub_router.protocol.plumtree.round_proofs import ROUNDS, earlier, own_proof
from episub_router.protocol.plumtree.tree import TREE_IDLE
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import ME, Branch, drops, sent
from tests.protocol.plumtree.roots import (
    GRAFT_S,
    PRUNE_S,
    SETTLE,
    UNKNOWN,
    WINDOW,
    bring,
    built,
    lose,
    publish,
    root,
)
from tests.protocol.plumtree.test_parents import pull

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


def test_several_roots_are_flooded_in_one_message() -> None:
    branch = Branch("a", "b")
    both = Root((TreeRoot("s", 1, 0.0), TreeRoot("t", 1, 0.0)))
    ((peer, on),) = sent(branch.receive("a", both))
    assert peer == "b"
    assert [line.source for line in on.roots] == ["s", "t"]
    assert sent(branch.wait(WINDOW), Graft) == [("a", GRAFT_S), ("a", Graft(sources=("t",)))]


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


def test_strangers_bring_no_root() -> None:
    branch = Branch("a")
    assert drops(branch.receive("x", root())) == [DropReason.NOT_NEIGHBOR]
    assert branch.machine.next_deadline() == NEVER


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
    assert sent(branch.receive("a", Gossip("m", 1, "payload", 0, "s", "s"))) == []
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


def test_a_standby_that_becomes_the_parent_is_replaced() -> None:
    branch = built("a", "b", "c", "d")
    assert sent(lose(branch, "a"), Graft) == [("b", GRAFT_S)]
    assert sent(branch.wait(SETTLE)) == [("d", Graft(standby=("s",)))]


def test_a_lost_standby_is_replaced() -> None:
    branch = built("a", "b", "c", "d")
    assert sent(lose(branch, "b")) == []
    assert sent(branch.wait(SETTLE)) == [("d", Graft(standby=("s",)))]


def test_several_trees_ask_a_standby_in_one_message() -> None:
    branch = Branch("a", "b")
    for peer in "ab":
        branch.receive(peer, Root((TreeRoot("s", 1, 0.0), TreeRoot("t", 1, 0.0))))
        branch.wait(0.03)
    assert sent(branch.wait(SETTLE)) == [("b", Graft(standby=("s", "t")))]


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
    bring(branch, "a", round=2)
    branch.handle(NeighborUp("newer", LinkKind.RANDOM))
    # One that carries nothing may be a dead source's.
    assert sent(branch.handle(NeighborDown("newer", DownReason.ENDED))) == []
    branch.receive("a", Gossip("from s", 2, "payload", 0, "s", "s"))
    ((_, own),) = sent(publish(branch, "m"), Root)
    ((peer, offer),) = sent(branch.handle(NeighborUp("new", LinkKind.RANDOM)))
    assert peer == "new"
    assert set(offer.roots) == {*root(2, UNKNOWN).roots, *own.roots}


def test_a_new_round_of_a_live_source_is_offered_before_its_next_message() -> None:
    """Of several sources each publishes rarely, and newcomers had to ask for its messages."""
    branch = built("a")
    branch.receive("a", Gossip("m", 2, "payload", 0, "s", "s"))
    bring(branch, "a", round=2)
    ((peer, offer),) = sent(branch.handle(NeighborUp("new", LinkKind.RANDOM)), Root)
    assert peer == "new"
    assert offer == root(2, UNKNOWN)


def test_a_newcomer_offers_no_tree_until_it_carries_something() -> None:
    branch = built("a")
    assert sent(branch.handle(NeighborUp("new", LinkKind.RANDOM)), Root) == []


def test_trees_without_a_way_to_the_source_and_old_ones_are_not_offered() -> None:
    branch = built("a")
    lose(branch, "a")
    assert sent(branch.handle(NeighborUp("b", LinkKind.RANDOM)), Root) == []
    branch = built("a")
    branch.receive("a", Gossip("m", 1, "payload", 0, "s", "s"))
    branch.wait(TREE_IDLE + 1)
    assert sent(branch.handle(NeighborUp("b", LinkKind.RANDOM)), Root) == []
    bring(branch, "a", round=2)  # It has to carry a message again.
    assert sent(branch.handle(NeighborUp("c", LinkKind.RANDOM)), Root) == []
