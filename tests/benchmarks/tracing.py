"""What tracing costs a node, with and without in the same run, and what writing and reading do.

python -m tests.benchmarks.tracing [--hosts 8] [--rounds 10] [--messages 20]
"""

from __future__ import annotations

import argparse
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import trio
from libp2p.abc import IPubsubRouter

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.trace.reading import TraceFile
from episub_router.trace.tracer import Tracer
from tests.hosts import Node, connect_all, eventually, running_nodes, subscribe_all
from tests.trace.samples import pb_bytes, sample_events

TOPIC = "news"


async def _hosts(stack: AsyncExitStack, count: int, tracers: list[Tracer] | None) -> list[Any]:
    unused = iter(tracers or ())

    def router() -> IPubsubRouter:
        return EpisubRouter(seed=0, tracer=next(unused, None))

    nodes: list[Node] = await stack.enter_async_context(
        running_nodes(
            count, router=router, pubsub_class=ResilientPubsub, seed=0 if tracers is None else 1
        )
    )
    await connect_all([(a, b) for n, a in enumerate(nodes) for b in nodes[n + 1 :]])
    subscriptions = await subscribe_all(nodes, TOPIC)
    await eventually(lambda: all(len(n.router.mesh[TOPIC]) >= 4 for n in nodes))  # type: ignore[attr-defined]
    return list(zip(nodes, subscriptions, strict=True))


async def _round(group: list[Any], messages: int) -> float:
    """CPU seconds of this process per delivery."""
    began = time.process_time()
    for number in range(messages):
        await group[number % len(group)][0].pubsub.publish(TOPIC, b"x" * 256)
        for _, subscription in group:
            await subscription.get()
    await trio.sleep(0.1)  # the last duplicates and their PRUNEs
    return (time.process_time() - began) / (messages * (len(group) - 1))


async def _on_hosts(hosts: int, rounds: int, messages: int, directory: Path) -> None:
    tracers = [Tracer(directory / f"{number}.pb") for number in range(hosts)]
    async with AsyncExitStack() as stack:
        plain = await _hosts(stack, hosts, None)
        traced = await _hosts(stack, hosts, tracers)
        for group in (plain, traced):
            await _round(group, messages)  # the tree forms
        costs = [
            (await _round(plain, messages), await _round(traced, messages)) for _ in range(rounds)
        ]
    without, having = (median(column) for column in zip(*costs, strict=True))
    ratio = median(b / a for a, b in costs)
    for tracer in tracers:
        tracer.close()
    written = sum(tracer.stats.written for tracer in tracers)
    print(f"{hosts} hosts, {rounds} rounds of {messages} messages, in turn without and with:")
    print(f"  CPU ms per delivery {1e3 * without:.2f} without, {1e3 * having:.2f} with a tracer")
    print(f"  ratio {ratio:.3f} (median of rounds); {written} events")


def _writing_and_reading(directory: Path) -> None:
    events = sample_events(50_000)
    path = directory / "micro.pb"
    with Tracer(path) as tracer:
        began = time.process_time()
        for event in events:
            tracer.emit(event)
        queued = time.process_time() - began
    path.write_bytes(pb_bytes(events))
    began = time.perf_counter()
    with TraceFile(path) as file:
        count = sum(1 for _ in file)
    seconds = time.perf_counter() - began
    print(f"emit: {1e6 * queued / len(events):.1f} us of CPU each; the thread's part included")
    print(f"read: {count / seconds:,.0f} events/s, {path.stat().st_size / seconds / 1e6:.0f} MB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--messages", type=int, default=20)
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        _writing_and_reading(Path(name))
    with TemporaryDirectory() as name:
        directory = Path(name)
        trio.run(_on_hosts, arguments.hosts, arguments.rounds, arguments.messages, directory)
        print(f"  {sum(path.stat().st_size for path in directory.iterdir())} bytes")


if __name__ == "__main__":
    main()
