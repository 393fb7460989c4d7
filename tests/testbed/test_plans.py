"""test-plans' gossipsub-interop: scripts, nodes, analysis."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from random import Random

import pytest
from libp2p.peer.id import ID

from interop.plans import analysis, script
from interop.plans.node import key_pair
from interop.plans.scenarios import SCENARIOS
from interop.testbed.lab import sandbox
from tests import children

ROOT = Path(__file__).parents[2]
REASON = sandbox.problem()


def entry(type: str, **fields: object) -> dict[str, object]:
    return {"type": type, **fields}


def test_instructions() -> None:
    publish = entry("publish", messageID=7, messageSizeBytes=8, topicID="t")
    gossip = {"D": 8, "Dlo": None, "HeartbeatInterval": 700_000_000, "Dscore": 4}
    assert script.parse(entry("ifNodeIDEquals", nodeID=3, instruction=publish)) == (
        script.IfNodeIdEquals(3, script.Publish(7, 8, "t"))
    )
    assert script.parse(entry("initGossipSub", gossipSubParams=gossip)) == script.InitGossipSub(
        script.GossipParams(degree=8, heartbeat_interval=0.7)
    )
    assert script.parse(entry("connect", connectTo=[1, 2])) == script.Connect((1, 2))
    assert script.parse(entry("waitUntil", elapsedSeconds=9)) == script.WaitUntil(9)
    assert script.parse(entry("subscribeToTopic", topicID="t")) == script.Subscribe("t")
    delay = entry("setTopicValidationDelay", topicID="t", delaySeconds=0.005)
    assert script.parse(delay) == script.ValidationDelay("t", 0.005)


@pytest.mark.parametrize(
    "bad",
    [
        entry("publishPartial", topicID="t", groupID=1),
        entry("subscribeToTopic", topicID="t", partial=True),
        entry("publish", messageID=7, messageSizeBytes=7, topicID="t"),
    ],
)
def test_what_a_node_cannot_do_is_refused(bad: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    path.write_text(json.dumps({"script": [bad]}))
    with pytest.raises(ValueError, match=r"not implemented|at least the 8 bytes"):
        script.load(path)
    path.write_text('{"script": [{}]}')
    with pytest.raises(ValueError, match="'type'"):
        script.load(path)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("nodes", [2, 7, 30])
def test_scenarios_are_scripts_with_enough_connections(
    name: str, nodes: int, tmp_path: Path
) -> None:
    made = SCENARIOS[name](nodes, 5, Random(1), 10.0, 1.0)
    path = tmp_path / "params.json"
    path.write_text(script.as_json(made))
    assert script.load(path) == made
    assert made == SCENARIOS[name](nodes, 5, Random(1), 10.0, 1.0)
    links: set[frozenset[int]] = set()
    for step in made:
        if isinstance(step, script.IfNodeIdEquals) and isinstance(step.instruction, script.Connect):
            links |= {frozenset({step.node, other}) for other in step.instruction.nodes}
    for node in range(nodes):
        assert sum(node in link for link in links) >= min(20, nodes - 1)


def test_keys_are_those_of_the_other_implementations() -> None:
    # Node 1's key is 01 00 00 …, which is what go-libp2p's and rust-libp2p's nodes have.
    assert key_pair(1).private_key.to_bytes()[:2] == b"\x01\x00"
    assert len({str(ID.from_pubkey(key_pair(node).public_key)) for node in range(300)}) == 300


def line(second: float, message: str) -> str:
    time = f"2026-01-01T00:00:{second:06.3f}+00:00"
    return json.dumps({"time": time, "msg": "Received Message", "id": message})


def test_analysis() -> None:
    started = '{"msg": "PeerID", "id": "x", "node_id": 0}'
    logs = [
        [started, line(1, "0"), "no JSON"],
        [started, line(2, "0"), line(3, "0"), line(9, "1")],
        [started, line(4, "0"), line(4, "0"), "[]"],
        [started],
    ]
    found = analysis.analyse(logs)
    assert found == [
        analysis.Dissemination("0", last=3.0, half=1.0, duplicates=0.5, reliability=1.0),
        analysis.Dissemination("1", last=0.0, half=0.0, duplicates=0.0, reliability=1 / 3),
    ]
    assert analysis.analyse(logs, skip=1) == found[1:]
    assert analysis.analyse(logs, receivers=1)[1].reliability == 1.0
    assert "reliability 0.4444" in analysis.lines(found, published=3)[-1]
    assert analysis.lines([], published=3) == ["no message came to any node"]


@pytest.mark.hosts
@pytest.mark.skipif(REASON is not None, reason=str(REASON))
def test_nodes_of_both_routers_run_a_script(tmp_path: Path) -> None:
    # The script goes by the clock, so messages are published until each node has got two.
    arguments = (
        "subnet-blob-msg --nodes 3 --messages 80 --start 4 --pause 2 --skip 0 "
        f"--router episub --router gossipsub --out {tmp_path}"
    )
    command = [sys.executable, "-m", "interop.testbed.plans", *arguments.split()]
    with children.child(command, cwd=ROOT) as process:
        deadline = time.monotonic() + 160
        while not all(len(received(tmp_path / f"node{node}.stdout")) >= 2 for node in range(3)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    [first, *_] = (tmp_path / "node2.stdout").read_text().splitlines()
    log = json.loads(first)
    assert (log["msg"], log["node_id"]) == ("PeerID", 2)
    assert log["id"] == str(ID.from_pubkey(key_pair(2).public_key))


def received(path: Path) -> set[str]:
    """The messages that a node has logged so far."""
    whole = path.read_text().split("\n")[:-1] if path.exists() else []
    entries = [json.loads(line) for line in whole]
    return {entry["id"] for entry in entries if entry["msg"] == "Received Message"}
