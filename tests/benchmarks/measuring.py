"""One measurement: the same hosts and messages with one router, counted at the streams."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import trio
from libp2p.abc import INetStream
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router import ResilientPubsub
from tests.benchmarks.clock import computing_clock
from tests.benchmarks.contenders import Contender
from tests.benchmarks.scenes import (
    TOPIC,
    Arrivals,
    link_all,
    percentile,
    until_linked,
)
from tests.hosts import Node, running_nodes

_BETWEEN_JOINS = 0.1
"""Seconds between one host's subscription and the next one's."""
_DRAIN = 10.0
"""Seconds that the last deliveries may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What every router gets; rates in messages per second, sizes in bytes, times in seconds."""

    hosts: int
    messages: int
    warm_up: int
    rate: float
    size: int
    sources: int
    settle: float
    """For the first links, heartbeats and time-outs to be over."""
    idle: float
    seed: int
    computing_clock: bool
    """Whether time is this process's own."""


class Meter:
    """Counts and times of all hosts together."""

    def __init__(self) -> None:
        self.bytes = 0
        self.payloads = 0
        self.arrivals = Arrivals(_DRAIN)

    def sent(self, rpc: rpc_pb2.RPC) -> None:
        size = rpc.ByteSize()
        self.bytes += size + (size.bit_length() + 6) // 7


class CountingPubsub(Pubsub):
    """The stock Pubsub, counting the frames that it writes and the payloads that it receives."""

    meter: Meter

    async def write_msg(self, stream: INetStream, rpc_msg: rpc_pb2.RPC) -> bool:
        self.meter.sent(rpc_msg)
        return await super().write_msg(stream, rpc_msg)

    async def push_msg(self, msg_forwarder: ID, msg: rpc_pb2.Message) -> None:
        if msg_forwarder != self.my_id:
            self.meter.payloads += 1
        await super().push_msg(msg_forwarder, msg)


class _CountingQueue:
    """A queue that counts what is taken out of it."""

    def __init__(self, queue: RpcQueue, meter: Meter) -> None:
        self._queue = queue
        self._meter = meter

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def closed(self) -> bool:
        return self._queue.closed

    async def pop(self) -> rpc_pb2.RPC | None:
        rpc = await self._queue.pop()
        if rpc is not None:
            self._meter.sent(rpc)
        return rpc


class CountingResilientPubsub(ResilientPubsub):
    """The same, which writes what waits in its queues at once."""

    meter: Meter

    async def handle_sending_messages(
        self, peer_id: ID, stream: INetStream, queue: RpcQueue
    ) -> None:
        counting: Any = _CountingQueue(queue, self.meter)
        await super().handle_sending_messages(peer_id, stream, counting)

    async def push_msg(self, msg_forwarder: ID, msg: rpc_pb2.Message) -> None:
        if msg_forwarder != self.my_id:
            self.meter.payloads += 1
        await super().push_msg(msg_forwarder, msg)


def measure(contender: Contender, load: Load) -> dict[str, Any]:
    """Run a contender under `load`; nothing where its hosts found too few neighbours."""
    result: dict[str, Any] = {}
    try:
        clock = computing_clock() if load.computing_clock else None
        result = trio.run(_measure, contender, load, clock=clock)
    except* trio.TooSlowError:
        pass
    return result


async def _measure(contender: Contender, load: Load) -> dict[str, Any]:
    meter = Meter()
    base = CountingResilientPubsub if contender.resilient else CountingPubsub
    counting = type("Counting", (base,), {"meter": meter})
    async with (
        running_nodes(
            load.hosts,
            router=contender.router,
            pubsub_class=counting,
            seed=load.seed,
        ) as nodes,
        trio.open_nursery() as nursery,
    ):
        await link_all(nodes, contender.links(load.hosts, load.seed))
        for node in nodes:
            subscription = await node.pubsub.subscribe(TOPIC)
            nursery.start_soon(meter.arrivals.read, node, subscription)
            await trio.sleep(_BETWEEN_JOINS)
        await until_linked(nodes)
        await trio.sleep(load.settle)
        await _publish(nodes, load, load.warm_up, meter)
        idle_cpu = await _idle(load.idle)
        meter.bytes = meter.payloads = 0
        cpu = time.process_time()
        await _publish(nodes, load, load.messages, meter)
        result = _result(load, meter, time.process_time() - cpu, idle_cpu)
        nursery.cancel_scope.cancel()
    return result


async def _publish(nodes: Sequence[Node], load: Load, count: int, meter: Meter) -> None:
    """Publish at a fixed rate, whatever happens, and wait for the last deliveries."""
    start, first = trio.current_time(), len(meter.arrivals.published)
    for number in range(count):
        await trio.sleep_until(start + number / load.rate)
        await meter.arrivals.publish(nodes[number % load.sources], load.size)
    await trio.sleep_until(start + count / load.rate)
    await meter.arrivals.complete(load.hosts - 1, first)


async def _idle(seconds: float) -> float:
    """CPU seconds per second while nothing is published."""
    before = time.process_time()
    await trio.sleep(seconds)
    return (time.process_time() - before) / seconds


def _result(load: Load, meter: Meter, cpu: float, idle_cpu: float) -> dict[str, Any]:
    # What comes late of the warm-up is left out.
    latencies = meter.arrivals.latencies(load.warm_up)
    deliveries = len(latencies)
    if not deliveries:
        raise RuntimeError("nothing was delivered")
    return {
        "payloads": meter.payloads / deliveries,
        "bytes": meter.bytes / deliveries,
        "cpu_ms": 1000 * cpu / deliveries,
        "p50_ms": 1000 * percentile(latencies, 0.50),
        "p99_ms": 1000 * percentile(latencies, 0.99),
        "delivered": deliveries / (load.messages * (load.hosts - 1)),
        "idle_cpu": idle_cpu,
    }
