"""Which source publishes when, and that nothing is missed however sources come and go."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from episub_router.sim.runner import run
from episub_router.sim.scenario import loading
from episub_router.sim.scenario.traffic import PREFACE_TURN, TrafficConfig
from tests.sim.simulated import earlier, scenario_of, simulated, simulation_of

SOONER = 240.0
"""Seconds: a thousand nodes have five minutes before their messages, a few need one."""
# With as many messages as each needs to reach its last phase.
SEVERAL_SOURCES = {
    "bursts": 40,
    "chat": 40,
    "churn-trees": 65,
    "crash": 150,
    "lossy-trees": 30,
    "new-sources": 60,
    "same-moment": 100,
}


def plan(traffic: TrafficConfig, seed: int = 1) -> list[tuple[float, int]]:
    return list(traffic.schedule(Random(seed)))


def test_new_sources_take_over_from_those_before() -> None:
    traffic = TrafficConfig(
        source="new", sources=4, at_once=2, each=3, messages=12, start=0.0, interval=0.5
    )
    turns = [turn for _, turn in plan(traffic)]
    assert turns == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]
    assert [time for time, _ in plan(traffic)] == [0.5 * index for index in range(12)]


def test_a_chat_is_drawn_from_the_seed() -> None:
    traffic = TrafficConfig(source="chat", sources=20, over=45.0, messages=60, interval=5.0)
    said = plan(traffic)
    assert said == plan(traffic) != plan(traffic, seed=2)
    assert Counter(turn for _, turn in said) == dict.fromkeys(range(20), 3)
    times = [time for time, _ in said]
    assert times == sorted(times)
    assert traffic.start <= times[0]
    assert times[-1] <= traffic.last
    for source in range(20):
        own = [time for time, turn in said if turn == source]
        assert own[0] <= traffic.start + traffic.over
        assert all(3.0 <= after - before <= 7.0 for before, after in pairwise(own))


def test_one_message_in_so_many_is_large() -> None:
    traffic = TrafficConfig(source="one", preface=2, start=10.0, size=8, large_every=3, messages=7)
    sizes = [traffic.size_of(index) for index in range(9)]
    assert sizes == [8, 8, 1_000_000, 8, 8, 1_000_000, 8, 8, 1_000_000]
    assert TrafficConfig(size=8).size_of(0) == 8


def test_small_messages_beside_a_large_one_are_measured_apart() -> None:
    changes = {"network.nodes": 30, "traffic.messages": 203, "traffic.large_size": 200_000}
    summary = run(scenario_of("large", changes, "episub-plane-1KB"), 1).summary
    assert [phase["messages"] for phase in summary["phases"]] == [50, 150, 1, 2, 0]
    assert min(summary["messages"]["reliability"]) == 1.0
    _, alone, large, beside, _ = summary["phases"]
    assert alone["latency"]["p99"] < beside["latency"]["p99"] < large["latency"]["p50"]


def test_bursts_begin_at_the_interval() -> None:
    traffic = TrafficConfig(messages=5, start=1.0, interval=5.0, burst=3, gap=0.25)
    assert [time for time, _ in plan(traffic)] == [1.0, 1.25, 1.5, 6.0, 6.25]
    assert traffic.last == 6.25
    together = TrafficConfig(source="few", messages=4, start=1.0, interval=5.0, burst=2, gap=0.0)
    assert plan(together) == [(1.0, 0), (1.0, 1), (6.0, 2), (6.0, 3)]


def test_the_preface_has_a_source_of_its_own() -> None:
    traffic = TrafficConfig(messages=2, start=30.0, preface=3)
    expected = [(20.0, PREFACE_TURN), (20.5, PREFACE_TURN), (21.0, PREFACE_TURN)]
    assert plan(traffic) == [*expected, (30.0, 0), (31.0, 1)]
    changes = {"network.nodes": 30, "traffic.preface": 3, "traffic.messages": 20}
    changes |= earlier("bursts", SOONER)
    simulation = simulated(scenario_of("bursts", changes, "episub, uniform"))
    sources = [record.source for record in simulation.records.messages]
    assert len(set(sources[:3])) == 1
    assert set(sources[3:]) == {sources[3]} != {sources[0]}


def test_sources_are_others_in_each_seed() -> None:
    scenario = scenario_of("chat", only="episub, uniform")
    drawn = [simulation_of(scenario, seed).sources for seed in (1, 1, 2)]
    assert len(drawn[0]) == 101  # one is the preface's
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.sim
@pytest.mark.parametrize("variant", ["episub, plane", "gossipsub, uniform"])
@pytest.mark.parametrize(("name", "messages"), list(SEVERAL_SOURCES.items()))
def test_nothing_is_missed_whoever_publishes(name: str, messages: int, variant: str) -> None:
    settings = {"network.nodes": 30, "traffic.messages": messages, **earlier(name, SOONER)}
    for scenario in loading.load(name).scenarios(settings, [variant]).values():
        assert scenario.measured == scenario.phases
        summary = run(scenario, 1).summary
        published = summary["messages"]["published"]
        assert len(published) == messages + scenario.traffic.preface
        assert min(summary["messages"]["reliability"]) == 1.0
        assert all(phase["messages"] for phase in summary["phases"])


@pytest.mark.sim
def test_fifty_sources() -> None:
    settings = {"network.nodes": 60, **earlier("headline", SOONER), "phases.1.start": 85.0}
    summary = run(scenario_of("headline", settings, "episub, plane, fifty"), 1).summary
    first, steady = summary["phases"]
    assert (first["name"], first["messages"], steady["messages"]) == ("first fifty", 50, 110)
    assert min(summary["messages"]["reliability"]) == 1.0
    assert steady["payloads_per_delivery"] <= 1.05
