"""Lost connections, silent neighbours, dials that fail (E15)."""

from __future__ import annotations

from episub_router.protocol.effects import NeighborDown
from episub_router.protocol.messages import Gossip, Graft, Prune
from tests.protocol.helpers import Member, sent


def test_links_that_end_together_are_not_grafted() -> None:
    """E15, E40: the tree is repaired over the links that remain, not over those that ended in
    the same moment and may be closed by now."""
    member = Member("a", "b", "c", "d")
    member.receive("a", Gossip("m", 1, "payload"))
    for peer in "bcd":
        member.receive(peer, Prune())
    member.wait(40)
    member.receive("d", Prune())
    effects = member.wait(20)
    ended = {effect.peer for effect in effects if isinstance(effect, NeighborDown)}
    assert ended == {"a", "b", "c"}
    assert sent(effects, Graft) == [("d", Graft())]
