"""The lazy queue and its timer (E30, E33)."""

from __future__ import annotations

import pytest

from episub_router.protocol.effects import DownReason, NeighborDown
from episub_router.protocol.messages import (
    Graft,
    IHave,
    MessageSummary,
)
from tests.protocol.helpers import Branch, sent


def summary(*lines: tuple[object, int]) -> IHave:
    return IHave(tuple(MessageSummary(id, hops) for id, hops in lines))


@pytest.mark.parametrize("why", ["grafted", "eager link lost"])
def test_peer_made_eager_is_still_told_what_it_wasn_t_pushed(why: str) -> None:
    """E33, E36, E40: what waits in the lazy queue was not pushed to those who were lazy then.
    After EagerRepair all of a peer's neighbours may promote it at once: without this, no one
    would tell it."""
    branch = Branch("e", lazy=["l"])
    branch.publish("m")
    if why == "grafted":
        branch.receive("l", Graft())
    else:
        branch.handle(NeighborDown("e", DownReason.FAILED))
    assert branch.eager >= {"l"}
    assert sent(branch.wait(1), IHave) == [("l", summary(("m", 1)))]
