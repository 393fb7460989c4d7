"""Overlays of Episub nodes: how they come to stand, what they look like, what a delivery costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import trio

from interop.harness.lab import Lab
from interop.harness.peer import Peer
from interop.harness.traffic import Traffic

LEAST_LINKS = 4
"""C_rand of the default parameters."""


async def overlay(lab: Lab, kinds: Sequence[str], topic: str) -> tuple[list[Peer], Traffic]:
    """Nodes that joined through the first of them, and what they published until their trees stand;
    all have links, and all links have two ends."""
    nodes = await lab.start_all(kinds, topic)
    async with trio.open_nursery() as nursery:
        for node in nodes[1:]:
            nursery.start_soon(node.dial, nodes[0])
    await symmetric(nodes, topic, least=min(LEAST_LINKS, len(nodes) - 1))
    traffic = Traffic(topic)
    for pause in (1.0, 1.0, 0.5):
        async with trio.open_nursery() as nursery:
            for author in nodes:
                nursery.start_soon(traffic.publish, author, nodes, [100])
        await trio.sleep(pause)
    return nodes, traffic


async def symmetric(nodes: Sequence[Peer], topic: str, least: int = 1) -> None:
    """Wait until each node has `least` neighbours, all of them among `nodes`, and is in their
    views."""
    async with trio.open_nursery() as nursery:

        async def watch(node: Peer) -> None:
            await node.until(lambda: not one_sided(nodes, topic, least), "views with two sides")
            nursery.cancel_scope.cancel()

        for node in nodes:
            nursery.start_soon(watch, node)


def one_sided(nodes: Sequence[Peer], topic: str, least: int) -> list[str]:
    """What is wrong with the views of `nodes`."""
    views = {node.id: node.mesh(topic) for node in nodes}
    names = {node.id: node.name for node in nodes}
    wrong = [f"{names[id]}: {len(view)} links" for id, view in views.items() if len(view) < least]
    for id, view in views.items():
        for other in view:
            if id not in views.get(other, ()):
                wrong.append(f"{names[id]} has {names.get(other, other)}, not the other way")
    return wrong


def _copies(nodes: Iterable[Peer]) -> int:
    return sum(len(node.reported("copy")) for node in nodes)


async def cost(nodes: Sequence[Peer], traffic: Traffic, each: int) -> float:
    """Copies received for each delivery, of `each` messages of every node, one after the other:
    1 and the relative message redundancy (RMR)."""
    before = _copies(nodes)
    for author in nodes:
        for _ in range(each):
            await traffic.publish(author, nodes, [100])
    deliveries = len(nodes) * each * (len(nodes) - 1)
    return (_copies(nodes) - before) / deliveries


async def everyone_publishes(nodes: Sequence[Peer], traffic: Traffic, each: int) -> None:
    """`each` messages of every node, all of them at a time; all come everywhere."""
    async with trio.open_nursery() as nursery:
        for author in nodes:
            nursery.start_soon(traffic.publish, author, nodes, [100] * each)


async def faults(op: str, nodes: Iterable[Peer], others: Iterable[Peer]) -> None:
    """Have each of the Go nodes `block`, `unblock`, `mute` or `unmute` the others."""
    others = list(others)
    for node in nodes:
        for other in others:
            await node.send(op, peer=other.id)
