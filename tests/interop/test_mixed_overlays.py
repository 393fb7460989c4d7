"""Overlays of Go and of Python nodes: kills, lost links, frozen processes, partitions, costs."""

from __future__ import annotations

import signal

import pytest
import trio

from interop.harness.lab import Lab
from interop.harness.overlays import (
    LEAST_LINKS,
    cost,
    everyone_publishes,
    faults,
    overlay,
    symmetric,
)
from interop.harness.peer import PATIENCE

TOPIC = "mixed"
GO, PYTHON = ["episub-go"] * 10, ["episub"] * 10
TOGETHER = [kind for pair in zip(GO, PYTHON, strict=True) for kind in pair]

ALL = {
    *("get_nodes", "nodes", "get_topics", "topics", "join", "forward_join"),
    *("neighbor_REQUEST", "neighbor_ACCEPT", "neighbor_QUERY", "neighbor_LIST", "disconnect"),
    *("leave", "shuffle", "shuffle_reply", "ihave", "prune", "graft", "root"),
}


@pytest.mark.peers("episub-go")
@pytest.mark.slow
@pytest.mark.parametrize("kinds", [GO, TOGETHER], ids=["go", "go-and-python"])
async def test_nothing_is_lost_when_some_are_killed(lab: Lab, kinds: list[str]) -> None:
    nodes, traffic = await overlay(lab, kinds, TOPIC)
    await everyone_publishes(nodes, traffic, 5)
    dead, alive = nodes[2:5], nodes[:2] + nodes[5:]
    for node in dead:
        await node.kill()
        traffic.expected.pop(node)
    await everyone_publishes(alive, traffic, 5)
    await symmetric(alive, TOPIC, LEAST_LINKS)
    traffic.check()


@pytest.mark.peers("episub-go")
@pytest.mark.slow
async def test_a_frozen_neighbour_is_left(lab: Lab) -> None:
    nodes, traffic = await overlay(lab, TOGETHER[:10], TOPIC)
    frozen, alive = nodes[2:4], nodes[:2] + nodes[4:]  # One of each.
    for node in frozen:
        node.process.send_signal(signal.SIGSTOP)
    # What comes late proves nothing, so that they needn't be suspected at once.
    for author in alive:
        await traffic.publish(author, alive, [100] * 3, perhaps=frozen)
    await symmetric(alive, TOPIC, LEAST_LINKS)
    for node in frozen:
        node.process.send_signal(signal.SIGCONT)
    await symmetric(nodes, TOPIC, LEAST_LINKS)
    await everyone_publishes(nodes, traffic, 2)
    traffic.check()


@pytest.mark.peers("episub-go")
@pytest.mark.slow
async def test_links_that_lose_everything_are_replaced(lab: Lab) -> None:
    """Between neighbours, and nothing reports it."""
    nodes, traffic = await overlay(lab, TOGETHER[:10], TOPIC)
    by_id = {node.id: node for node in nodes}
    lost = [(node, by_id[node.mesh(TOPIC)[0]]) for node in nodes[:6:2]]
    for node, other in lost:
        await faults("mute", [node], [other])
    for _ in range(3):
        await everyone_publishes(nodes, traffic, 2)
    for node, other in lost:
        await node.until(
            lambda node=node, other=other: other.id not in node.mesh(TOPIC),  # type: ignore[misc]
            "the link ended",
        )
        await faults("unmute", [node], [other])
    await symmetric(nodes, TOPIC, LEAST_LINKS)
    await everyone_publishes(nodes, traffic, 2)
    traffic.check()


@pytest.mark.peers("episub-go")
@pytest.mark.slow
@pytest.mark.parametrize("kinds", [GO, TOGETHER], ids=["go", "go-and-python"])
async def test_the_halves_of_a_partition_merge(lab: Lab, kinds: list[str]) -> None:
    """Between Go and Python, if there are both: only the Go nodes lose links on command."""
    nodes, traffic = await overlay(lab, kinds, TOPIC)
    one = [node for node in nodes if node.name.startswith("episub-go")][: len(nodes) // 2]
    two = [node for node in nodes if node not in one]
    await faults("block", one, two)
    for half in (one, two):
        await symmetric(half, TOPIC, 3)
    for half, others in ((one, two), (two, one)):
        await traffic.publish(half[0], half, [100] * 5, perhaps=others)
    await faults("unblock", one, two)
    # What each half published comes to the other: it is younger than payloads are kept.
    for others in (two, one):
        for node in others:
            known = traffic.allowed.pop(node)
            traffic.expected[node] += known
        await traffic.delivered(others)
    await symmetric(nodes, TOPIC, LEAST_LINKS)
    await everyone_publishes(nodes, traffic, 2)
    traffic.check()


# A node whose process waits for a core asks for what is on its way to it.
@pytest.mark.quiet
@pytest.mark.peers("episub-go")
async def test_a_delivery_costs_the_same(lab: Lab) -> None:
    found = []
    for topic, kinds in (("go", GO), ("go-and-python", TOGETHER), ("python", PYTHON)):
        nodes, traffic = await overlay(lab, kinds, topic)
        found.append(await cost(nodes, traffic, 5))
        traffic.check()
        for node in nodes:
            await node.kill()
    print(f"copies for each delivery: {found}")
    assert max(found) <= 1.1 * min(found)


@pytest.mark.peers("episub-go", "leaf")
async def test_every_message_is_spoken(lab: Lab) -> None:
    nodes, traffic = await overlay(lab, [*TOGETHER[:10], "leaf"], TOPIC)
    await nodes[1].unsubscribe(TOPIC)
    traffic.expected.pop(nodes[1])
    others = [nodes[0], *nodes[2:]]
    came: set[str] = set()
    went: set[str] = set()
    with trio.fail_after(PATIENCE):
        while not came & went >= ALL - {"leave"}:
            await everyone_publishes(others, traffic, 1)
            for node in (node for node in others if node.name.startswith("episub-go")):
                count = len(node.reported("counts"))
                await node.send("counts")
                counts = await node.event("counts", count=count + 1)
                came |= counts["in"].keys()
                went |= counts["out"].keys()
    assert "leave" in came
    assert await nodes[2].end() == 0
    await symmetric([nodes[0], *nodes[3:]], TOPIC)
