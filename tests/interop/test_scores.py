"""What a go peer that keeps scores thinks of a bridge at the end of what would cost others points.

The `lab` fixture looks at the scores of every cell; here is what other cells have too little of.
"""

from __future__ import annotations

import signal

import pytest
import trio

from interop.harness.lab import Lab
from interop.harness.links import link, mesh_link
from interop.harness.traffic import Traffic, sizes

TOPIC = "scores"
STALL = 8.0
"""Seconds; `RouterParams.stall_timeout` is 5."""

pytestmark = pytest.mark.peers("go")


async def test_a_bridge_keeps_to_a_back_off(lab: Lab) -> None:
    """A full go peer prunes the bridge for a minute; a GRAFT before its end is a penalty."""
    full = await lab.start("go", "--mesh=1,2,2", topics=[TOPIC])
    others = [await lab.start("go", topics=[TOPIC]) for _ in range(2)]
    for other in others:
        await mesh_link(full, other, TOPIC)
    bridge = await lab.start("episub", topics=[TOPIC])
    await link(bridge, full, TOPIC)
    await bridge.until(
        lambda: any(e.get("prune") for e in bridge.reported("control", peer=full.id)), "a PRUNE"
    )
    traffic = Traffic(TOPIC)
    for _ in range(6):  # heartbeats, in which it could graft again
        for author in (bridge, others[0]):
            await traffic.publish(author, [full, bridge, *others], [32, 2048])
        await trio.sleep(1)
    traffic.check()
    assert sum(bool(e.get("prune")) for e in bridge.reported("control", peer=full.id)) == 1


async def test_a_bridge_unsubscribes_and_comes_back(lab: Lab) -> None:
    """Twice; what it has in its cache then is the go peer's own, too."""
    go = await lab.start("go", topics=[TOPIC])
    bridge = await lab.start("episub", topics=[TOPIC])
    far = await lab.start("episub", topics=[TOPIC])
    await mesh_link(go, bridge, TOPIC)
    await mesh_link(far, bridge, TOPIC)
    for leaver in (bridge, go, bridge):
        traffic = Traffic(TOPIC)
        await go.meshed(bridge, TOPIC)
        for author in (go, far):
            await traffic.publish(author, [go, bridge, far], sizes(10))
        other = go if leaver is bridge else bridge
        await leaver.unsubscribe(TOPIC)
        await other.forgets(leaver, TOPIC)
        await leaver.subscribe(TOPIC)
        await other.knows(leaver, TOPIC)
        await leaver.knows(other, TOPIC)


@pytest.mark.parametrize("stalled", ["go", "bridge"])
async def test_one_of_them_stalls(lab: Lab, stalled: str) -> None:
    """The bridge stops sending, and replays its cache when the peer goes on."""
    go = await lab.start("go", topics=[TOPIC])
    bridge = await lab.start("episub", topics=[TOPIC])
    far = await lab.start("episub", topics=[TOPIC])
    await mesh_link(go, bridge, TOPIC)
    await mesh_link(far, bridge, TOPIC)
    everybody = [go, bridge, far]
    traffic = Traffic(TOPIC)
    for author in (go, far):
        await traffic.publish(author, everybody, sizes(10))
    victim = go if stalled == "go" else bridge
    victim.process.send_signal(signal.SIGSTOP)
    during = Traffic(TOPIC)
    if victim is go:
        await during.publish(far, [bridge], [32] * 40, perhaps=[go])
    await trio.sleep(STALL)
    victim.process.send_signal(signal.SIGCONT)
    await go.meshed(bridge, TOPIC)
    for author in (go, far):
        await during.publish(author, everybody, sizes(10))


async def test_a_late_joiner_and_one_that_is_killed_and_returns(lab: Lab) -> None:
    """The go peer comes back without its memory: its own messages are news to it."""
    bridge = await lab.start("episub", topics=[TOPIC])
    far = await lab.start("episub", topics=[TOPIC])
    await mesh_link(far, bridge, TOPIC)
    traffic = Traffic(TOPIC)
    await traffic.publish(far, [bridge], [32] * 10)
    go = await lab.start("go", "--key-seed=again", topics=[TOPIC])
    await mesh_link(go, bridge, TOPIC)
    for author in (go, far):
        await traffic.publish(author, [go, bridge, far], [32, 2048] * 5)
    await go.kill()
    await bridge.event("disconnected", peer=go.id)
    again = await lab.start("go", "--key-seed=again", topics=[TOPIC])
    await again.dial(bridge)
    await again.knows(bridge, TOPIC)
    await again.meshed(bridge, TOPIC)
    after = Traffic(TOPIC)
    for author in (again, far):
        await after.publish(author, [again, bridge, far], [32, 2048] * 5)


async def test_many_topics_over_gossip_alone(lab: Lab) -> None:
    """25 topics ask for their messages in as many requests; each that isn't met is a broken
    promise."""
    topics = [f"{TOPIC}/{number}" for number in range(25)]
    outside = await lab.start("go", "--mesh=0,0,0", topics=topics)
    bridge = await lab.start("episub", topics=topics)
    await link(bridge, outside, topics[0])
    for topic in topics:
        await bridge.knows(outside, topic)
        await outside.knows(bridge, topic)
    await outside.until(lambda: not any(map(outside.mesh, topics)), "nobody in its meshes")
    every = [Traffic(topic) for topic in topics]
    async with trio.open_nursery() as nursery:
        for traffic in every:
            nursery.start_soon(traffic.publish, bridge, [outside], [32, 32, 2048])
    for traffic in every:
        traffic.check()
