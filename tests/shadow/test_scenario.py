"""Scenarios of Shadow, and the files that are made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from episub_router.sim.runner import run
from episub_router.sim.strict import ScenarioError
from interop.plans import script
from interop.shadow import configuration
from interop.shadow.scenario import Plan, load, parse

SHIPPED = sorted((Path(__file__).parents[2] / "interop" / "shadow" / "scenarios").glob("*.toml"))


def small(**tables: Any) -> Plan:
    table = {
        "name": "small",
        "network": {"nodes": 8, "uplinks": [1000.0, 50.0]},
        "latency": {"kind": "regions", "spread": 0.0},
        "traffic": {"source": "few", "sources": 3, "messages": 6, "start": 5.0, "interval": 0.5},
    }
    return parse({**table, **tables})


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_are_scripts(path: Path, tmp_path: Path) -> None:
    plan = load(path, settings={"network.nodes": 10})
    steps = configuration.script(plan)
    (tmp_path / "params.json").write_text(script.as_json(steps))
    assert script.load(tmp_path / "params.json") == steps
    assert len(plan.measured) >= 4


@pytest.mark.parametrize("source", ["few", "random"])
def test_sources_and_times_are_the_simulator_s(source: str, tmp_path: Path) -> None:
    traffic = {"source": source, "sources": 3, "messages": 20, "start": 5.0, "interval": 0.5}
    plan = small(traffic=traffic)
    assert len({message.host for message in plan.publishings}) > 2
    trace = tmp_path / "t.json"
    run(plan.scenario, plan.seed, trace=trace)
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    published = [event for event in events if "publishMessage" in event]
    expected = [(round(message.time * 1e9), f"sim-{message.host}") for message in plan.publishings]
    assert [(event["timestamp"], _name(event["peerID"])) for event in published] == expected


def _name(peer: str) -> str:
    from base64 import b64decode

    return b64decode(peer)[2:].decode()


def test_the_graph_has_the_simulator_s_latencies_and_rates() -> None:
    plan = small(network={"nodes": 8, "uplinks": [1000.0, 50.0], "loss": 0.01})
    lines = [line.strip() for line in configuration.graph(plan).splitlines()]
    assert lines.count("edge [") == 8 * 9 // 2
    at = lines.index("source 2", lines.index("target 7", lines.index("source 1")))
    at = next(i for i in range(at, len(lines)) if lines[i : i + 2] == ["source 2", "target 5"])
    delay = plan.network.delay(2, 5)
    assert lines[at + 2 : at + 4] == [f'latency "{round(delay * 1e6)} us"', "packet_loss 0.01"]
    rates = [line for line in lines if line.startswith("host_bandwidth_up")]
    assert rates == [f'host_bandwidth_up "{plan.mbit(h) * 1000:.0f} Kbit"' for h in range(8)]
    assert len(set(rates)) == 2


def test_hosts_have_their_kinds_and_ends(tmp_path: Path) -> None:
    plan = small(
        shadow={"kinds": ["episub", "go"], "validation": 0.005},
        faults=[{"kind": "crash", "at": 6.0, "share": 0.25}],
    )
    config: Any = configuration.configuration(plan, tmp_path)
    processes = [config["hosts"][f"node{host}"]["processes"][0] for host in range(8)]
    assert [process["path"].endswith("gossipsub") for process in processes] == [False, True] * 4
    killed = [host for host in range(8) if "shutdown_time" in processes[host]]
    assert killed == sorted(plan.killed)
    assert len(killed) == 2
    assert not {message.host for message in plan.publishings} & set(killed)
    assert not plan.up(killed[0], 7.0)
    assert plan.up(killed[0], 5.0)
    assert script.ValidationDelay("a-subnet", 0.005) in configuration.script(plan)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"shadow": {"kinds": ["nim"]}}, "'nim'"),
        ({"shadow": {"kinds": []}}, "names none"),
        ({"shadow": {"speed": 1}}, "unknown key shadow.speed"),
        ({"traffic": {"source": "chat"}}, "traffic.source"),
        ({"traffic": {"size": 7}}, "at least the 8 bytes"),
        ({"network": {"nodes": 2000}}, "at most 1000"),
        ({"faults": [{"kind": "partition", "at": 1.0}]}, "doesn't change"),
        ({"network": {"nodes": 8, "jitter": 0.1}}, "jitter"),
    ],
)
def test_what_cannot_be_run_is_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        small(**tables)
