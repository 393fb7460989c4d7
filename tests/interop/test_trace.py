"""What go-libp2p-pubsub's PBTracer writes beside Episub nodes is read by our tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.reading import TraceFile, Unreadable
from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import Traffic, sizes

TOPIC = "traced"


def events_of(path: Path) -> list[TraceEvent]:
    """All events; none of the file may be unreadable."""
    events = []
    with TraceFile(path) as trace:
        for offset, event in trace:
            assert not isinstance(event, Unreadable), (offset, event.reason)
            events.append(event)
    return events


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
    events = events_of(path)
    published = [e.publishMessage.messageID for e in events if e.HasField("publishMessage")]
    assert sorted(id.hex() for id in published) == sorted(
        event["id"] for event in episub.told("delivery", **{"from": go.id})
    )
    arrived = {
        event.deliverMessage.messageID.hex(): event.deliverMessage.receivedFrom
        for event in events
        if event.HasField("deliverMessage")
    }
    told = go.told("delivery")
    assert len(told) == 40
    assert {event["id"] for event in told} <= set(arrived)
    # What rust wrote came by way of the bridge, like all else that wasn't go's own.
    bridges = {arrived[event["id"]] for event in told}
    (bridge,) = bridges
    grafted = {event.graft.peerID for event in events if event.HasField("graft")}
    assert bridge in grafted
    protocols = {
        event.onNewOutboundStream.proto
        for event in events
        if event.onNewOutboundStream.peerID == bridge
    }
    assert protocols == {go.protocol(episub)}
