"""What go-libp2p-pubsub's PBTracer writes beside Episub nodes is read by our tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import Traffic, exchange, sizes
from tests.trace.samples import bad, good, records_of

TOPIC = "traced"

COMMANDS = """
import sys
from episub_router.cli.main import main
for command in (
    "pipeline ingest interop --lake lake --answers",
    "report interop --lake lake --out report.json --out report.html",
):
    if status := main(command.split()):
        sys.exit(status)
"""
"""Both commands in one process: starting Spark is most of what they take."""


@pytest.mark.peers("go", "rust")
async def test_a_go_peers_trace_has_every_message(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "go.pb"
    go = await lab.start("go", f"--trace={path}", topics=[TOPIC])
    episub = await lab.start("episub", topics=[TOPIC])
    rust = await lab.start("rust", topics=[TOPIC])
    for stock in (go, rust):
        await mesh_link(stock, episub, TOPIC)
    traffic = Traffic(TOPIC)
    for author in (go, episub, rust):
        await traffic.publish(author, [go, episub, rust], sizes(20))
    traffic.check()
    assert await go.end() == 0
    records = records_of(path)
    assert not bad(records)
    events = good(records)
    published = [e.publishMessage.messageID for e in events if e.HasField("publishMessage")]
    assert sorted(id.hex() for id in published) == sorted(
        event["id"] for event in episub.reported("delivery", **{"from": go.id})
    )
    arrived = {
        event.deliverMessage.messageID.hex(): event.deliverMessage.receivedFrom
        for event in events
        if event.HasField("deliverMessage")
    }
    delivered = go.reported("delivery")
    assert len(delivered) == 40
    assert {event["id"] for event in delivered} <= set(arrived)
    # What rust wrote came by way of the bridge, like all else that wasn't go's own.
    bridges = {arrived[event["id"]] for event in delivered}
    (bridge,) = bridges
    grafted = {event.graft.peerID for event in events if event.HasField("graft")}
    assert bridge in grafted
    protocols = {
        event.onNewOutboundStream.proto
        for event in events
        if event.onNewOutboundStream.peerID == bridge
    }
    assert protocols == {go.protocol(episub)}


@pytest.mark.slow  # most of it is Spark
@pytest.mark.peers("go", "rust", "js")
async def test_a_topic_of_all_languages_becomes_a_report(lab: Lab, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    directory = tmp_path / "interop"
    directory.mkdir()
    traced = [
        await lab.start(kind, f"--trace={directory / kind}.pb", topics=[TOPIC])
        for kind in ("go", "episub", "py")
    ]
    others = [await lab.start(kind, topics=[TOPIC]) for kind in ("rust", "js")]
    peers = [*traced, *others]
    episub = traced[1]
    for stock in peers:
        if stock is not episub:
            await mesh_link(stock, episub, TOPIC)
    await exchange(TOPIC, peers, sizes(12))
    for peer in peers:
        assert await peer.end() == 0
    await trio.run_process(
        [sys.executable, "-c", COMMANDS],
        cwd=tmp_path,
        env=KINDS["episub"].environment(),
        capture_stdout=True,
        stderr=subprocess.STDOUT,
    )
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    quality = run["quality"]
    assert (quality["peers"], quality["untraced_peers"]) == (len(traced), len(others))
    assert quality["quarantined"] == quality["dropped_by_tracer"] == 0
    (topic,) = run["topics"]
    figures = topic["figures"]
    assert figures["messages"] == 12 * len(peers)
    assert figures["missing"] == 0
    assert figures["reliability"] == figures["atomicity"] == 1.0
    # Where the author isn't traced, the first delivery stands for its publishing.
    assert quality["inferred_publishes"] == 12 * len(others)
    delivered = sum(len(peer.reported("delivery")) for peer in traced)
    own = 12 * len(traced)
    assert quality["deliveries"] == delivered + own
