"""A synthetic overlay is like a joined one, and what begins with it goes on as with that one."""

from __future__ import annotations

from random import Random
from statistics import mean
from typing import Any

import pytest

from episub_router.protocol.hyparview import Places
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.params import MembershipParams
from episub_router.sim.results.summary import summarize
from episub_router.sim.routers.episub import TOPIC_NAME
from episub_router.sim.simulation import Simulation
from episub_router.sim.strict import ScenarioError
from episub_router.sim.synthetic import synthetic_links
from tests.sim.simulated import scenario_of, simulated

NODES = 160
SIZES: dict[str, dict[str, Any]] = {
    "default": {},
    "specification": {"active_size": 7, "near_links": 3, "rings": 0, "passive_size": 42},
    "odd": {"active_size": 8, "near_links": 3, "rings": 2, "random_links": 5},
    "random alone": {"active_size": 5, "near_links": 0, "rings": 0},
}


def ran(**settings: Any) -> tuple[Simulation, dict[str, Any]]:
    given = {
        "network.nodes": NODES, "traffic.messages": 40, "traffic.source": "few",
        "traffic.sources": 20, "router": {"kind": "episub"}, **settings,
    }  # fmt: skip
    simulation = simulated(scenario_of("scale", given))
    return simulation, summarize(simulation)


def figures(summary: dict[str, Any]) -> dict[str, float]:
    phase = summary["phases"][-1]
    overlay = phase["overlay"]
    return {
        "degree": overlay["degree_mean"],
        "near": overlay["near_proximity_ratio"],
        "path": overlay["average_shortest_path"],
        "p50": phase["latency"]["p50"],
        "p99": phase["latency"]["p99"],
    }


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_has_the_degrees_that_nodes_aim_at(sizes: dict[str, Any]) -> None:
    params = MembershipParams(**sizes)
    links = synthetic_links(range(NODES), params, 14, lambda a, b: abs(a - b), Random(1))
    degrees = [len(of) for of in links.values()]
    assert params.active_size - 0.4 <= mean(degrees) <= params.active_size
    assert mean(params.active_size - degree <= 1 for degree in degrees) > 0.95
    assert max(degrees) <= params.active_size
    places = Places(TOPIC_NAME, params.rings)
    next_ones = (
        [places.next_to(node, range(NODES)) for node in range(NODES)] if params.rings else []
    )
    for node, next_one in enumerate(next_ones):
        assert next_one.keys() <= links[node].keys()
    assert len(next_ones) == (NODES if params.rings else 0)
    for node, of in links.items():
        assert node not in of
        assert all(links[other][node] is kind for other, kind in of.items())
        near = sum(kind is LinkKind.NEAR for kind in of.values())
        assert near <= (params.active_size - params.random_links if params.near_links else 0)


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_a_few_nodes_are_all_linked(nodes: int) -> None:
    _, summary = ran(**{"network.nodes": nodes, "join.synthetic": True, "traffic.start": 2.0})
    assert summary["phases"][-1]["reliability"] == 1.0


def test_a_run_is_like_one_whose_nodes_joined_for_a_minute() -> None:
    joined = figures(ran()[1])
    simulation, summary = ran(**{"join.synthetic": True, "traffic.start": 2.0})
    made = figures(summary)
    assert summary["unexplained"] == 0
    assert summary["phases"][-1]["reliability"] == 1.0
    bounds = {"degree": 0.05, "near": 0.25, "path": 0.1, "p50": 0.2, "p99": 0.25}
    for name, bound in bounds.items():
        assert made[name] == pytest.approx(joined[name], rel=bound), name
    # Nobody joins.
    assert "JOIN" not in simulation.records.traffic


def test_the_same_seed_gives_the_same_overlay() -> None:
    one, other = (
        synthetic_links(range(NODES), MembershipParams(), 14, lambda a, b: abs(a - b), Random(1))
        for _ in range(2)
    )
    assert one == other


def test_churn_goes_on_from_it() -> None:
    churn = {"kind": "churn", "at": 3.0, "until": 8.0, "rate": 0.02, "crash": 0.5}
    settings = {
        "join.synthetic": True, "traffic.start": 2.0, "faults": [churn], "network.nodes": 120,
    }  # fmt: skip
    simulation, summary = ran(**settings)
    assert summary["unexplained"] == 0
    assert summary["newcomer_deliveries"] > 0
    came = [node for node in simulation.network.nodes.values() if node.id >= 120]
    assert len(came) > 5
    assert mean(len(list(node.neighbors())) for node in came) > 4


def test_hostile_members_are_in_it_and_late_ones_come() -> None:
    simulation, summary = ran(
        **{
            "join.synthetic": True, "traffic.start": 2.0, "network.nodes": 100,
            "adversaries": [
                {"kind": "censor", "at": 3.0, "share": 0.1},
                {"kind": "greedy", "comes": 4.0, "share": 0.1},
            ],
        }
    )  # fmt: skip
    first, last = simulation.watch.looks[0], simulation.watch.looks[-1]
    assert (first.hostile, last.hostile) == (10 / 90, 20 / 100)
    assert all(phase["reliability"] == 1.0 for phase in summary["phases"])
    hostile = summary["phases"][-1]["hostile"]
    assert hostile["hostile_share_over_fair"] > 0
    assert hostile["hostile_share_over_fair"] == pytest.approx(
        5 * hostile["hostile_share_of_links"]
    )


@pytest.mark.parametrize("settings", [{"router.kind": "gossipsub"}, {"network.nat_share": 0.2}])
def test_it_is_for_episub_without_hosts_that_cannot_be_dialled(settings: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"join\.synthetic is for Episub, without"):
        ran(**{"join.synthetic": True, **settings})
