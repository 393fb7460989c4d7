"""gossipsub's drafts for large messages: what they save, and that nothing is lost by them."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.sim.runner import run
from episub_router.sim.scenario import loading

SMALL = {
    "network.nodes": 40, "traffic.start": 20.0, "traffic.messages": 3, "traffic.size": 400_000,
    "phases": [],
}  # fmt: skip
WAYS = ("preamble", "fragments")


def summary(variant: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    settings = {**SMALL, **(changes or {})}
    scenarios = loading.load("large").scenarios(settings, [f"{variant}-uniform-1MB-20"])
    return run(scenarios[f"{variant}-uniform-1MB-20"], 1).summary


def test_both_save_time_and_bytes() -> None:
    (before,) = summary("idontwant")["phases"]
    (preamble,) = summary("preamble")["phases"]
    (fragments,) = summary("fragments")["phases"]
    assert preamble["payloads_per_delivery"] < 0.6 * before["payloads_per_delivery"]
    assert fragments["payloads_per_delivery"] < before["payloads_per_delivery"]
    assert fragments["latency"]["p99"] < 0.7 * before["latency"]["p99"]
    assert preamble["latency"]["p99"] < before["latency"]["p99"]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_missed_where_frames_are_lost(way: str) -> None:
    found = summary(way, {"network.loss": 0.1})
    assert min(found["messages"]["reliability"]) == 1.0
    assert found["traffic"]["iwant"]["sends"] > 0


@pytest.mark.parametrize("way", WAYS)
def test_small_messages_go_as_before(way: str) -> None:
    small = {"traffic.size": 1000, "network.uplink": 0.0}
    expected, found = summary("gossipsub", small), summary(way, small)
    assert found["messages"] == expected["messages"]
    assert found["phases"] == expected["phases"]


def test_they_are_modelled_one_at_a_time() -> None:
    with pytest.raises(ValueError, match="preamble or fragment_size"):
        summary("preamble", {"router.params.fragment_size": 1000})
    with pytest.raises(ValueError, match="aren't modelled together"):
        summary("preamble", {"router.scoring": True})
