"""Hosts in one process with one router, joined in one topic: what several benchmarks start with."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.pubsub.pubsub import Pubsub

from episub_router import ResilientPubsub
from tests.benchmarks.contenders import CONTENDERS, Contender
from tests.hosts import Node, connect, running_nodes

TOPIC = "benchmark"
COMPARED = ("gossipsub-defaults", "gossipsub-bounded", "episub", "gossipsub-joining")
READY_TIMEOUT = 300.0
_PARALLEL_DIALS = 16


@asynccontextmanager
async def scene(
    contender: Contender, hosts: int, within: float = 0.0
) -> AsyncIterator[tuple[list[Node], list[ISubscriptionAPI]]]:
    """`hosts` that subscribe over `within` seconds. Episub has the pubsub that its README names."""
    async with running_nodes(
        hosts,
        router=contender.router,
        pubsub_class=ResilientPubsub if contender.resilient else Pubsub,
        seed=1,
    ) as nodes:
        await link_all(nodes, contender.links(hosts, 1), contender.links_within)
        subscriptions = []
        start = trio.current_time()
        for number, node in enumerate(nodes):
            await trio.sleep_until(start + within * number / hosts)
            subscriptions.append(await node.pubsub.subscribe(TOPIC))
        yield nodes, subscriptions


async def link_all(
    nodes: Sequence[Node], links: Sequence[tuple[int, int]], within: float = 0.0
) -> None:
    """Connect pairs of hosts over `within` seconds, some at a time."""
    limiter = trio.CapacityLimiter(_PARALLEL_DIALS)

    async def link(dialler: Node, listener: Node) -> None:
        async with limiter:
            await connect(dialler, listener)

    async with trio.open_nursery() as nursery:
        for a, b in links:
            nursery.start_soon(link, nodes[a], nodes[b])
            await trio.sleep(within / len(links))


class Arrivals:
    """Numbered messages: when each was published, and when it arrived at each other host."""

    def __init__(self, patience: float, topic: str = TOPIC) -> None:
        self.published: list[float] = []
        self.times: list[list[float]] = []
        self._patience, self._topic = patience, topic

    async def publish(self, node: Node, size: int) -> None:
        number = len(self.published)
        self.published.append(trio.current_time())
        self.times.append([])
        await node.pubsub.publish(self._topic, number.to_bytes(8, "big") + bytes(size - 8))

    async def read(self, node: Node, subscription: ISubscriptionAPI) -> None:
        me = node.id.to_bytes()
        while True:
            message = await subscription.get()
            if message.from_id != me:
                number = int.from_bytes(message.data[:8], "big")
                self.times[number].append(trio.current_time())

    async def complete(self, others: int, first: int = 0) -> None:
        """Wait until so many other hosts have each message from the `first` on, or patience
        ends."""
        with trio.move_on_after(self._patience):
            while any(len(times) < others for times in self.times[first:]):  # noqa: ASYNC110
                await trio.sleep(0.05)

    def latencies(self, first: int = 0, last: int | None = None) -> list[float]:
        """Of messages from the `first` to before the `last`, the shortest first."""
        some = zip(self.published[first:last], self.times[first:last], strict=True)
        return sorted(at - when for when, times in some for at in times)


def percentile(ordered: Sequence[float], share: float) -> float:
    """By nearest rank."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


async def until_linked(nodes: Sequence[Node]) -> None:
    """Wait until each has four neighbours."""
    with trio.fail_after(READY_TIMEOUT):
        while not is_linked(nodes):  # noqa: ASYNC110 (stock routers have no event to wait for)
            await trio.sleep(0.05)


def is_linked(nodes: Sequence[Node]) -> bool:
    """Whether each of them has four neighbours, or all others."""
    return all(size >= min(4, len(nodes) - 1) for size in neighbors(nodes))


def neighbors(nodes: Sequence[Node]) -> list[int]:
    """How many neighbours each of them has in the topic."""
    routers: list[Any] = [node.router for node in nodes]
    return [len(router.mesh.get(TOPIC, ())) for router in routers]


def in_own_process(
    measure: Callable[..., dict[str, Any]], name: str, *arguments: Any
) -> dict[str, Any]:
    """`measure(contender, *arguments)` of the contender called `name`, in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1, _quiet) as pool:
        return pool.apply(_named, (measure, name, arguments))


def _named(
    measure: Callable[..., dict[str, Any]], name: str, arguments: tuple[Any, ...]
) -> dict[str, Any]:
    return measure(CONTENDERS[name], *arguments)


def _quiet() -> None:
    logging.getLogger("libp2p").addHandler(logging.NullHandler())
