"""What asyncio costs: CPU and latency with trio's own loop, as a guest, and in a thread.

    python -m tests.benchmarks.asyncio_loops [--hosts 3] [--rate 20] [--seconds 15] [--runs 3]

A process for each host, over loopback; one publishes, all read. `trio` is `trio.run`. `guest` runs
trio inside of the asyncio loop (`start_guest_run`), `thread` beside it, as `episub_router.aio`.
Runs of the three take turns. A host alone reads what it publishes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from subprocess import PIPE
from typing import Any

import trio

import episub_router
from episub_router import aio
from episub_router.aio import trio_thread
from episub_router.aio.trio_thread import TrioThread
from tests.children import child
from tests.hosts import PATIENCE

LOOPS = ("trio", "guest", "thread")
SIZE = 256
SETTLE = 4.0
TOPIC = "news"


@dataclass(frozen=True, slots=True)
class Load:
    hosts: int
    rate: float
    seconds: float


class Guest(TrioThread):
    """Trio in the asyncio loop's own thread."""

    def _start(self) -> Callable[[], object]:
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self._loop.call_soon,
            done_callback=lambda _: self._ended.set_result(None),
            host_uses_signal_set_wakeup_fd=True,
            instruments=[self],
        )
        return lambda: None


async def node(
    library: Any, sleep: Any, in_thread: Any, start: Any, load: Load, bootstrap: str
) -> None:
    """One host: publish, if it is the first, read, and print what that took."""
    latencies: list[float] = []
    count = int(load.rate * load.seconds)

    async def read(topic: Any) -> None:
        async for item in topic:
            latencies.append(time.perf_counter() - float(item.data[:20]))

    async with library.open(TOPIC, bootstrap=bootstrap.split()) as topic:
        print(topic.addresses[0], flush=True)
        start(read, topic)
        if load.hosts > 1:
            await topic.joined(PATIENCE)
        print("joined", flush=True)
        await in_thread(sys.stdin.readline)
        cpu = time.process_time()
        if not bootstrap:
            await sleep(1.0)
            began = time.perf_counter()
            for number in range(count):
                await sleep(max(0.0, began + number / load.rate - time.perf_counter()))
                await topic.publish(f"{time.perf_counter():020.9f}".encode().ljust(SIZE))
        while len(latencies) < count:
            await sleep(0.1)
        cpu = time.process_time() - cpu
        print(json.dumps([cpu, latencies if bootstrap or load.hosts == 1 else []]), flush=True)
        await in_thread(sys.stdin.readline)  # until the others have read all


async def in_trio(*arguments: Any) -> None:
    async with trio.open_nursery() as nursery:
        await node(
            episub_router, trio.sleep, trio.to_thread.run_sync, nursery.start_soon, *arguments
        )


async def in_asyncio(*arguments: Any) -> None:
    tasks: list[asyncio.Task[None]] = []

    def start(function: Any, *args: Any) -> None:
        tasks.append(asyncio.ensure_future(function(*args)))

    await node(aio, asyncio.sleep, asyncio.to_thread, start, *arguments)


def child_main(loop: str, load: Load, bootstrap: str) -> None:
    if loop == "trio":
        trio.run(in_trio, load, bootstrap)
        return
    if loop == "guest":
        trio_thread.TrioThread = Guest  # type: ignore[misc]
    asyncio.run(in_asyncio(load, bootstrap))


def measure(loop: str, load: Load) -> tuple[float, float]:
    """CPU milliseconds for each message and host, and the median latency in milliseconds."""
    with ExitStack() as stack:
        hosts: list[Any] = []
        address = ""
        for _ in range(load.hosts):
            command = [sys.executable, "-m", __spec__.name, *sys.argv[1:], "--one", loop]
            command += ["--bootstrap", address]
            hosts.append(stack.enter_context(child(command, stdin=PIPE, stdout=PIPE, text=True)))
            line = hosts[-1].stdout.readline().strip()
            address = address or line
        for host in hosts:
            host.stdout.readline()
        time.sleep(SETTLE)
        for host in hosts:
            print(file=host.stdin, flush=True)
        found = [json.loads(host.stdout.readline()) for host in hosts]
        for host in hosts:
            print(file=host.stdin, flush=True)
    cpu = sum(seconds for seconds, _ in found) / (load.rate * load.seconds * load.hosts)
    return 1000 * cpu, 1000 * statistics.median(t for _, times in found for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    load = Load(args.hosts, args.rate, args.seconds)
    if args.one:
        child_main(args.one, load, args.bootstrap)
        return
    found: dict[str, list[tuple[float, float]]] = {loop: [] for loop in LOOPS}
    for _ in range(args.runs):
        for loop in LOOPS:
            found[loop].append(measure(loop, load))
    print("| loop | CPU ms per message | of trio's | p50, ms |\n|---|---|---|---|")
    base = statistics.median(cpu for cpu, _ in found["trio"])
    for loop, runs in found.items():
        cpu, p50 = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"| {loop} | {cpu:.2f} | {cpu / base:.2f} | {p50:.1f} |")


if __name__ == "__main__":
    main()
