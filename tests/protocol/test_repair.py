"""Announced and missing messages, and the GRAFTs that fetch them (E34-E37)."""

from __future__ import annotations

from episub_router.protocol.messages import Gossip, IHave, MessageSummary
from episub_router.protocol.params import BroadcastParams
from tests.protocol.helpers import Branch


def ihave(*ids: object, hops: int = 1) -> IHave:
    return IHave(tuple(MessageSummary(id, hops) for id in ids))


def test_rate_limit_starts_afresh_when_nothing_is_missing() -> None:
    """E34: what came before the timer looked was announced all the same, and must not use up
    what the announcer may add for good: the timer that resets it rests while nothing is missing."""
    branch = Branch("parent", lazy=["l"], params=BroadcastParams(max_ihave_rate=5))
    for id in range(20):
        assert branch.receive("l", ihave(id)) == []
        branch.receive("parent", Gossip(id, 1, "payload"))
        branch.wait(1)
    assert branch.machine.missing == 0
