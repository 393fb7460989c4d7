"""Pushing messages along the tree, and the tree that comes of it (E30-E33, E38-E40)."""

from __future__ import annotations

import pytest

from episub_router.protocol.effects import DropReason
from episub_router.protocol.messages import Gossip, Graft, IHave, MessageSummary, Prune
from episub_router.protocol.params import BroadcastParams
from tests.protocol.helpers import Branch, drops, sent


def ihave(*ids: object, hops: int = 1) -> IHave:
    return IHave(tuple(MessageSummary(id, hops) for id in ids))


def test_optimised_delivery_isn_t_pushed_to_the_new_parent() -> None:
    """E38: who announced the message has it. A copy would be answered with PRUNE, which would
    leave the node without the link that it just took in and without the one it gave up."""
    branch = Branch("far", lazy=["near"])
    branch.receive("near", ihave("m", hops=2))
    effects = branch.receive("far", Gossip("m", 12, "payload"))
    assert sent(effects) == [("near", Graft()), ("far", Prune())]
    assert (branch.eager, branch.lazy) == ({"near"}, {"far"})


def test_hops_sent_on_stay_in_range() -> None:
    """E32: a message at the highest hop count goes on at that count: one more would be counted
    against us by each receiver."""
    branch = Branch("a", "b", lazy=["c"], params=BroadcastParams(max_hops=9))
    effects = branch.receive("a", Gossip("m", 9, "payload"))
    assert sent(effects) == [("b", Gossip("m", 9, "payload"))]
    assert sent(branch.wait(1)) == [("c", ihave("m", hops=9))]
    assert sent(branch.receive("c", Graft(("m",)))) == [("c", Gossip("m", 9, "payload"))]


@pytest.mark.parametrize("claimed", [-100, 0])
def test_impossible_hops_in_an_announcement_gain_nothing(claimed: int) -> None:
    """E38: a hop count below 1 is counted and taken as 1, not as a reason to switch."""
    branch = Branch("parent", lazy=["liar"])
    assert drops(branch.receive("liar", ihave("m", hops=claimed))) == [DropReason.HOPS_INVALID]
    branch.receive("parent", Gossip("m", 8, "payload"))
    assert (branch.eager, branch.lazy) == ({"parent"}, {"liar"})
