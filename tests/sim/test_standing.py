"""Slow links condemn nobody, in a whole simulated overlay."""

from __future__ import annotations

import pytest

from episub_router.protocol import standing as rules
from episub_router.protocol.plumtree import state
from episub_router.protocol.standing import Standings
from episub_router.sim.runner import run
from tests.sim.simulated import scenario_of

SCENARIO = """
name = "slow"
[network]
nodes = 24
uplink = 5.0
[join]
over = 3.0
via = "first"
[router]
kind = "episub"
[router.params.broadcast]
piece_threshold = 0
[traffic]
source = "few"
sources = 2
messages = 8
size = 1000000
start = 10.0
interval = 4.0
settle = 60.0
"""


@pytest.mark.sim
@pytest.mark.parametrize("silence", [state.SILENCE, 0.05])
def test_megabytes_over_slow_uplinks_condemn_nobody(
    silence: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte takes 1.6 s, to each child after the other: promises are broken now and then,
    and hardly ever three in a row. With next to no patience neighbours are banned."""
    standings: list[float] = []
    add = Standings.add

    def spy(own: Standings, peer: object, earned: float, now: float) -> None:
        add(own, peer, earned, now)
        standings.append(own.of(peer, now))

    monkeypatch.setattr(Standings, "add", spy)
    monkeypatch.setattr(state, "SILENCE", silence)
    summary = run(scenario_of(SCENARIO), 4).summary
    assert summary["traffic"]["GRAFT"]["sends"] > 100
    bad = sum(standing < rules.BAD_BELOW for standing in standings) / len(standings)
    assert bad > 0.2 if silence < 1 else bad < 0.01
    assert ("ban" in summary["drops"]) == (silence < 1)
    assert summary["phases"][0]["reliability"] == 1.0
