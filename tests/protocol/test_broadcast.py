"""Pushing messages along the tree, and the tree that comes of it (E30-E33, E38-E40)."""

from __future__ import annotations

from episub_router.protocol.messages import Gossip, Graft, IHave, MessageSummary, Prune
from tests.protocol.helpers import Branch, sent


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
