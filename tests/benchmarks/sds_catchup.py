"""How long a newcomer takes to a long log, and what one hole in it costs.

    python -m tests.benchmarks.sds_catchup

Simulated: a member that has everything and one that has nothing, with delays of each direction and
links of the server as given; seconds are virtual ones, and what computing takes is said beside
them. The server resends its last messages meanwhile, as nobody has acknowledged them. On real hosts
(`--hosts`): two hosts over loopback, where each signature is checked.
"""

from __future__ import annotations

import argparse
import json
import time

import trio
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub

from episub_router.sds import SdsChannel
from episub_router.sds.store import MemoryStore
from tests.hosts import connect_all, eventually, running_nodes
from tests.sds.harness import Group, Links
from tests.sds.test_reconciliation import fill_hole

LINKS = (
    (0.001, 100),
    (0.01, 100),
    (0.05, 100),
    (0.1, 100),
    (0.2, 100),
    (0.2, 20),
    (0.5, 20),
)
"""Seconds of delay in each direction, and Mbit/s."""


def simulated(count: int, size: int) -> None:
    group = Group(2, seed=1, links=Links(delay=(0.001, 0.001)))
    group.run(5.0)
    server, newcomer = sorted(group.members)
    group.crash(newcomer)
    for n in range(count):
        group.send(server, b"message %08d" % n + bytes(max(0, size - 16)))
    group.run(60.0)
    for delay, rate in LINKS:
        group.links.delay, group.links.rate = (delay, delay), rate * 1e6 / 8
        group.members[newcomer].store = MemoryStore()
        group.bytes.clear()
        requests, resent = group.requests, group.published["resend"]
        cpu = time.process_time()
        group.start(newcomer)
        took = group.settle(3600.0)
        row = {
            "delay_ms": delay * 1000, "mbit_s": rate, "messages": count, "seconds": took,
            "requests": group.requests - requests, "bytes": group.bytes["pull"],
            "resent": group.published["resend"] - resent, "cpu_s": time.process_time() - cpu,
        }  # fmt: skip
        print(json.dumps(row), flush=True)
        group.crash(newcomer)
        group.run(60.0)


async def real(count: int) -> None:
    async with (
        running_nodes(2, router=lambda: FloodSub([PROTOCOL_ID])) as (first, second),
        SdsChannel(first.pubsub, "room") as server,
    ):
        for n in range(count):
            await server.send(b"message %08d" % n)
        await server.drain(timeout=0.1)
        async with SdsChannel(second.pubsub, "room") as newcomer:
            start, cpu = trio.current_time(), time.process_time()
            await connect_all([(first, second)])
            await eventually(lambda: len(newcomer.log) == count, 600.0)
            took, cpu = trio.current_time() - start, time.process_time() - cpu
    print(
        f"Real hosts in one process: {count:,} messages in {took:.1f} s, {cpu:.1f} s of the CPU "
        "for both"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=16, help="bytes of a simulated content")
    parser.add_argument("--hosts", action="store_true", help="only real hosts")
    args = parser.parse_args()
    if args.hosts:
        trio.run(real, args.messages)
        return
    requests, size = fill_hole(50_000, 31_415)
    print(json.dumps({"hole_in": 50_000, "requests": requests, "bytes": size}), flush=True)
    simulated(args.messages, args.size)


if __name__ == "__main__":
    main()
