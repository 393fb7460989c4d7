"""docs/wire.md is enough to implement from: a peer in Go that was made from it joins an overlay."""

from __future__ import annotations

import signal

import pytest
import trio

from interop.harness.lab import Lab
from interop.harness.peer import Peer
from interop.harness.traffic import Traffic

TOPIC = "wire"

MESSAGES = [0, 1, 100, 1024, 64 * 1024] * 38 + [900 * 1024] * 10


async def overlay(lab: Lab, count: int) -> list[Peer]:
    """Episub nodes that joined through the first of them."""
    first, *others = nodes = await lab.start_all(["episub"] * count, TOPIC)
    for node in others:
        await node.dial(first)
        await node.until(lambda node=node: bool(node.mesh(TOPIC)), "a neighbour")  # type: ignore[misc]
    return nodes


def controls(leaf: Peer, direction: str) -> set[str]:
    """The control messages that went one way."""
    return {event["message"] for event in leaf.reported("control", direction=direction)}


@pytest.mark.peers("leaf")
async def test_the_leaf_exchanges_messages_with_an_overlay(lab: Lab) -> None:
    nodes = await overlay(lab, 4)
    leaf = await lab.start("leaf", topics=[TOPIC])
    await leaf.dial(nodes[1])
    await leaf.until(lambda: len(leaf.mesh(TOPIC)) >= 2, "two neighbours")
    traffic = Traffic(TOPIC)
    # While it stands still, every neighbour sends it the same message: all but one are pruned.
    leaf.process.send_signal(signal.SIGSTOP)
    await traffic.publish(nodes[-1], nodes, [100], perhaps=[leaf])
    leaf.process.send_signal(signal.SIGCONT)
    await leaf.event("control", direction="out", message="prune")
    await traffic.publish(leaf, nodes, MESSAGES)
    await traffic.publish(nodes[-1], [leaf, *nodes], MESSAGES)
    traffic.check()
    assert controls(leaf, "out") >= {"get_nodes", "join", "ihave"}
    assert controls(leaf, "in") >= {"nodes", "neighbor_ACCEPT"}
    # A ROOT comes for each source that the leaf could graft to, and its own goes out.
    assert {"root", "graft"} <= controls(leaf, "in") & controls(leaf, "out")
    # A node asks a neighbour that has been silent for a while, whether the link stands.
    await leaf.event("control", direction="in", message="neighbor_QUERY")
    await leaf.event("control", direction="out", message="neighbor_LIST")
    neighbors = [node for node in nodes if node.id in leaf.mesh(TOPIC)]
    assert await leaf.end() == 0
    for node in neighbors:
        await node.until(lambda node=node: leaf.id not in node.mesh(TOPIC), "the leaf left")  # type: ignore[misc]


@pytest.mark.peers("leaf")
async def test_the_leaf_grafts_when_its_tree_breaks(lab: Lab) -> None:
    nodes = await overlay(lab, 3)
    leaf = await lab.start("leaf", topics=[TOPIC])
    await leaf.dial(nodes[0])
    await leaf.until(lambda: len(leaf.mesh(TOPIC)) == 3, "three neighbours")
    traffic = Traffic(TOPIC)
    for author in (*nodes, leaf):
        await traffic.publish(author, [leaf, *nodes], [100] * 10)
    await nodes[1].kill()
    alive = [leaf, nodes[0], nodes[2]]
    for author in alive:
        await traffic.publish(author, alive, [100] * 20)
    traffic.expected.pop(nodes[1])
    traffic.check()


@pytest.mark.peers("leaf")
async def test_two_leaves_meet_in_the_overlay(lab: Lab) -> None:
    nodes = await overlay(lab, 2)
    leaves = [await lab.start("leaf", topics=[TOPIC]) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        for leaf in leaves:
            nursery.start_soon(leaf.dial, nodes[0])
    for leaf in leaves:
        await leaf.until(lambda leaf=leaf: bool(leaf.mesh(TOPIC)), "a neighbour")  # type: ignore[misc]
    traffic = Traffic(TOPIC)
    for author in leaves:
        await traffic.publish(author, [*leaves, *nodes], [0, 1, 100, 1024] * 5)
    traffic.check()
