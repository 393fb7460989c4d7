"""Each measure against a count by hand, or against its definition spelt out."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from episub_router.sim.metrics import dissemination, overlay, shares
from episub_router.sim.results import report
from episub_router.sim.results.summary import summarize
from episub_router.sim.runner import run
from tests.sim.simulated import scenario_of, simulated

Graph = dict[int, list[int]]


def ring(size: int) -> Graph:
    return {node: [(node - 1) % size, (node + 1) % size] for node in range(size)}


def random_graph(size: int, links: int, seed: int) -> Graph:
    rng = random.Random(seed)
    graph: Graph = {node: [] for node in range(size)}
    for a, b in rng.sample(list(itertools.combinations(range(size), 2)), links):
        graph[a].append(b)
        graph[b].append(a)
    return graph


def test_a_flood_over_a_regular_graph_has_rmr_d_minus_2() -> None:
    n, d = 1000, 5
    payloads = n * d - (n - 1)  # everybody sends to all but the one it got it from
    assert dissemination.rmr(payloads, n) == pytest.approx(d - 2, abs=0.01)
    assert dissemination.rmr(n - 1, n) == 0.0
    assert dissemination.rmr(5, 1) == 0.0


def test_duplicates_and_reliability() -> None:
    assert dissemination.duplicates_per_delivery(30, 10) == 2.0
    assert dissemination.duplicates_per_delivery(0, 0) == 0.0
    assert dissemination.reliability(9, 10) == 0.9
    assert dissemination.reliability(0, 0) == 1.0


def test_latency_quantiles_are_values_that_occurred() -> None:
    latencies = np.array([0.001 * n for n in range(100, 0, -1)])
    summary = dissemination.latency_summary(latencies)
    assert summary == pytest.approx(
        {"mean": 0.0505, "p50": 0.050, "p90": 0.090, "p99": 0.099, "max": 0.100}
    )
    assert sum(dissemination.latency_histogram(latencies)) == 100
    assert dissemination.latency_summary(np.array([])) == {}


def test_time_to_repair_counts_from_the_last_message_that_fell_short() -> None:
    published = [8.0, 10.0, 12.0, 14.0, 16.0]
    repair = dissemination.time_to_repair
    assert repair(9.0, published, [1.0, 0.5, 1.0, 0.9, 1.0], 0.999) == 7.0
    assert repair(9.0, published, [0.0, 1.0, 1.0, 1.0, 1.0], 0.999) == 1.0
    assert repair(9.0, published, [1.0, 1.0, 1.0, 1.0, 0.9], 0.999) is None


def test_overlay_figures_of_a_ring() -> None:
    matrix, ids = overlay.adjacency(ring(10))
    out, into = overlay.degrees(matrix)
    hops = overlay.shortest_paths(matrix, range(10))
    assert ids == list(range(10))
    assert out.tolist() == into.tolist() == [2] * 10
    assert overlay.symmetry(matrix) == 1.0
    assert overlay.clustering(matrix) == 0.0
    assert overlay.average_shortest_path(hops) == pytest.approx((2 * (1 + 2 + 3 + 4) + 5) / 9)
    assert overlay.eccentricity(hops) == 5
    assert overlay.component_sizes(matrix) == [10]


def test_links_to_absent_nodes_and_one_sided_links() -> None:
    matrix, _ = overlay.adjacency({1: [2, 99], 2: [], 5: [1]})
    assert overlay.symmetry(matrix) == 0.0
    assert overlay.component_sizes(matrix) == [3]
    assert overlay.symmetry(overlay.adjacency({1: [2], 2: [1], 3: [1]})[0]) == pytest.approx(2 / 3)
    assert overlay.component_sizes(overlay.adjacency({})[0]) == []


@pytest.mark.parametrize("seed", range(5))
def test_clustering_is_its_definition(seed: int) -> None:
    graph = random_graph(30, 90, seed)
    local = []
    for node, peers in graph.items():
        pairs = list(itertools.combinations(peers, 2))
        closed = sum(b in graph[a] for a, b in pairs)
        local.append(closed / len(pairs) if pairs else 0.0)
        assert node not in peers
    matrix, _ = overlay.adjacency(graph)
    assert overlay.clustering(matrix) == pytest.approx(sum(local) / len(local))


def test_flood_reach_is_what_a_flood_from_anywhere_reaches() -> None:
    graph = random_graph(40, 40, seed=3)
    reached = 0
    for start in graph:
        seen, todo = {start}, [start]
        while todo:
            todo = [peer for node in todo for peer in graph[node] if peer not in seen]
            seen.update(todo)
        reached += len(seen)
    matrix, _ = overlay.adjacency(graph)
    assert overlay.flood_reach(matrix) == pytest.approx(reached / 40**2)


def test_proximity_ratio_compares_neighbours_with_random_pairs() -> None:
    matrix, ids = overlay.adjacency(ring(100))

    def delay(a: int, b: int) -> float:
        return float(min((a - b) % 100, (b - a) % 100))

    ratio = overlay.proximity_ratio(matrix, ids, delay, [(0, 25), (50, 75), (3, 3)])
    assert ratio == pytest.approx(1 / 25)


def test_tree_shape() -> None:
    #   0 -> 1, 2;  1 -> 3, 4, 5
    assert dissemination.fan_out([0, 0, 1, 1, 1]) == {"max": 3.0, "leaves": pytest.approx(4 / 6)}
    assert dissemination.mean_depth([1, 1, 2, 2, 2]) == pytest.approx(8 / 5)
    assert dissemination.fan_out([]) == {"max": 0.0, "leaves": 0.0}


def test_a_share_is_in_proportion_to_the_uplink_and_one_copy_at_least() -> None:
    rates = {0: 10.0, 1: 10.0, 2: 180.0}
    # 400 bytes in all: 360 are the share of the fast host, and 100, one copy, that of the others.
    sent = {0: 250, 1: 60, 2: 90}
    assert shares.figures(sent, rates, 100, {0}) == pytest.approx(
        {"max": 2.5, "p99": 2.5, "max_of_relays": 0.6, "uplink_of_max_relay": 10.0}
    )
    assert shares.figures({2: 360, 0: 40}, rates, 10, {0})["max_of_relays"] == pytest.approx(0.95)


TEN = {"network.nodes": 10, "traffic.messages": 2, "traffic.start": 20.0, "traffic.settle": 20.0}
MIXED = {**TEN, "network.uplinks": [20.0, 50.0], "traffic.size": 100_000}


@pytest.mark.parametrize("uplinks", [[20.0, 50.0], []])
def test_shares_are_in_the_summary_where_uplinks_differ(uplinks: list[float]) -> None:
    uplink = 0.0 if uplinks else 20.0
    settings = {**MIXED, "network.uplink": uplink, "network.uplinks": uplinks}
    (phase,) = run(scenario_of("scale", settings), 1).summary["phases"]
    assert ("sent_of_share" in phase) == bool(uplinks)
    assert phase.get("sent_of_share", {"max": 1.0})["max"] >= 1.0


def test_messages_of_each_kind_are_counted_in_each_phase() -> None:
    phases = [{"name": "first", "start": 20.0}, {"name": "second", "start": 40.0}]
    settings = {**TEN, "traffic.messages": 4, "traffic.interval": 10.0, "phases": phases}
    summary = run(scenario_of("scale", settings), 1).summary
    first, second = summary["phases"]
    total = summary["traffic"]
    assert first["traffic"]["payload"]["sends"] > second["traffic"]["payload"]["sends"] >= 18
    for phase in (first, second):
        sent = phase["traffic"]
        control = sum(entry["bytes"] for kind, entry in sent.items() if kind != "payload")
        assert control / phase["deliveries"] == pytest.approx(phase["control_bytes_per_delivery"])
        assert all(entry["sends"] <= total[kind]["sends"] for kind, entry in sent.items())
    shown = report.phases(summary, "kinds")
    (row,) = (n for n, cell in enumerate(shown.columns[0].cells) if "ROOT" in str(cell))
    root = first["traffic"]["ROOT"]
    cell = [*shown.columns[1].cells][row]
    assert cell == f"{root['sends']:,}, {root['bytes'] / first['deliveries']:,.0f}"


def test_a_kind_that_one_run_does_not_have_counts_as_none_in_a_mean() -> None:
    runs = [{"traffic": {"ROOT": {"sends": 4}}}, {"traffic": {}}]
    assert report.mean_of(runs) == {"traffic": {"ROOT": {"sends": 2}}}


def test_a_host_that_restarted_has_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sent before and after doesn't add up, though the count after may be the larger."""
    counted: set[int] = set()

    def figures(sent: dict[int, int], *_: object) -> dict[str, float]:
        counted.update(sent)
        return {}

    monkeypatch.setattr(shares, "figures", figures)
    flap = {"kind": "flap", "at": 25.0, "share": 0.3, "down": 1.0}
    simulation = simulated(
        scenario_of("scale", {**MIXED, "traffic.interval": 20.0, "faults": [flap]})
    )
    summarize(simulation)
    sessions = simulation.records.sessions
    restarted = {session.node for session in sessions if session.started > 25.0}
    assert len(restarted) == 3
    assert counted == set(range(10)) - restarted
