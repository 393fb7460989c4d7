"""Scripts like those of test-plans' experiment.py, at any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from interop.plans.script import (
    Connect,
    GossipParams,
    IfNodeIdEquals,
    InitGossipSub,
    Instruction,
    Publish,
    Subscribe,
    ValidationDelay,
    WaitUntil,
)

_LINKS = 20
"""Connections of a node."""
_BLOB = 48 * 2 * 1024
"""Bytes of a message with the cells of 48 blobs."""
_VALIDATION = 0.005
"""Seconds that validating it takes."""


def subnet_blob_msg(
    nodes: int, messages: int, rng: Random, start: float, pause: float
) -> list[Instruction]:
    """96 KiB from a random node every `pause` seconds, from `start` on."""
    topic = "a-subnet"
    return [
        *begin(nodes, rng, [ValidationDelay(topic, _VALIDATION)]),
        Subscribe(topic),
        *_publish(nodes, messages, _BLOB, [topic], rng, start, pause),
    ]


def simple_fanout(
    nodes: int, messages: int, rng: Random, start: float, pause: float
) -> list[Instruction]:
    """1 KiB from a random node to one of two topics, of which each node is in one."""
    topics = ["topic-a", "topic-b"]
    return [
        *begin(nodes, rng, []),
        *(IfNodeIdEquals(node, Subscribe(topics[node % 2])) for node in range(nodes)),
        *_publish(nodes, messages, 1024, topics, rng, start, pause),
    ]


SCENARIOS: dict[str, Callable[[int, int, Random, float, float], list[Instruction]]] = {
    "subnet-blob-msg": subnet_blob_msg,
    "simple-fanout": simple_fanout,
}


def begin(
    nodes: int, rng: Random, settings: Sequence[Instruction], links: int = _LINKS
) -> list[Instruction]:
    """Each node's router, and random connections: so many a node, if there are as many others."""
    made: list[Instruction] = [
        IfNodeIdEquals(
            node,
            InitGossipSub(
                GossipParams(heartbeat_initial_delay=round(0.1 + 0.0001 * (node + 1), 4))
            ),
        )
        for node in range(nodes)
    ]
    made += settings
    links = min(links, nodes - 1)
    known: dict[int, set[int]] = {node: set() for node in range(nodes)}
    for node in range(nodes):
        free = [other for other in range(nodes) if other != node and other not in known[node]]
        chosen = rng.sample(free, min(len(free), max(0, links - len(known[node]))))
        for other in chosen:
            known[node].add(other)
            known[other].add(node)
        if chosen:
            made.append(IfNodeIdEquals(node, Connect(tuple(chosen))))
    return made


def _publish(
    nodes: int,
    messages: int,
    size: int,
    topics: Sequence[str],
    rng: Random,
    start: float,
    pause: float,
) -> list[Instruction]:
    made: list[Instruction] = [WaitUntil(start)]
    for number in range(messages):
        publish = Publish(number, size, rng.choice(topics))
        made.append(IfNodeIdEquals(rng.randrange(nodes), publish))
        made.append(WaitUntil(start + pause * (number + 1)))
    return [*made, WaitUntil(start + pause * messages + 2 * pause)]
