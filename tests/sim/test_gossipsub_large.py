"""gossipsub's drafts for large messages: what they save, and that nothing is lost by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from episub_router.sim.runner import run
from episub_router.sim.strict import ScenarioError
from tests.sim.simulated import scenario_of

SMALL = {
    "network.nodes": 40, "traffic.start": 20.0, "traffic.messages": 3, "traffic.size": 400_000,
    "phases": [],
}  # fmt: skip
WAYS = ("preamble", "fragments")


def summary(variant: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    settings = {**SMALL, **(changes or {})}
    return run(scenario_of("large", settings, f"{variant}-uniform-1MB-20"), 1).summary


def test_both_save_time_and_bytes() -> None:
    (before,) = summary("idontwant")["phases"]
    (preamble,) = summary("preamble")["phases"]
    (fragments,) = summary("fragments")["phases"]
    assert preamble["payloads_per_delivery"] < 0.6 * before["payloads_per_delivery"]
    assert fragments["payloads_per_delivery"] < before["payloads_per_delivery"]
    assert fragments["latency"]["p99"] < 0.7 * before["latency"]["p99"]
    assert preamble["latency"]["p99"] < before["latency"]["p99"]


@pytest.mark.parametrize(("way", "loss"), [("preamble", 0.1), ("fragments", 0.25)])
def test_nothing_is_missed_where_frames_are_lost(way: str, loss: float) -> None:
    found = summary(way, {"network.loss": loss})
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
    with pytest.raises(ValueError, match="have their own"):
        summary("fragments", {"router.params.idontwant": 1000})
    with pytest.raises(ScenarioError, match="adversaries know nothing"):
        summary("fragments", {"adversaries": [{"kind": "censor", "share": 0.2}]})


@pytest.mark.parametrize("way", WAYS)
def test_traces_name_the_messages(way: str, tmp_path: Path) -> None:
    settings = {**SMALL, "traffic.messages": 1}
    scenario = scenario_of("large", settings, f"{way}-uniform-1MB-20")
    run(scenario, 1, trace=tmp_path / "trace.json")
    sent = [json.loads(line) for line in (tmp_path / "trace.json").read_text().splitlines()]
    assert any("idontwant" in str(event).lower() for event in sent)


def test_what_comes_in_fragments_is_not_asked_for() -> None:
    found = summary("fragments", {"traffic.messages": 4, "traffic.interval": 3.0})
    assert found["traffic"]["ihave"]["sends"] > 0
    assert "iwant" not in found["traffic"]
