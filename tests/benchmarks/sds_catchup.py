"""How long a newcomer takes to a long log, and what one hole in it costs.

    python -m tests.benchmarks.sds_catchup

Simulated: a member that has everything and one that has nothing, with delays of each direction and
links of the server as given; seconds are virtual ones, and what computing takes is said beside
them. The server resends its last messages meanwhile, as nobody has acknowledged them. On real hosts
(`--hosts`): two hosts of one process over loopback, where each signature is checked; seconds are
real ones. With `--snapshot` a newcomer takes a snapshot of all messages, which are in the server's
store already, and what followed.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import trio
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub

from episub_router.sds import Retention, SdsChannel, SdsParams
from episub_router.sds.net.access import store_key
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.entry import LogEntry
from episub_router.sds.protocol.message import Message
from episub_router.sds.store.sqlite import MemoryStore
from episub_router.sds.wire.codec import Codec
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
_BATCH = 10_000


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
    print(json.dumps({"joins": "all messages", "messages": count, "seconds": took, "cpu_s": cpu}))


async def with_snapshot(count: int) -> None:
    now = int(time.time() * 1000)
    async with running_nodes(2, router=lambda: FloodSub([PROTOCOL_ID])) as (first, second):
        store, me = MemoryStore(Retention()), first.id.to_base58()
        key, codec = store_key("room", "0"), Codec(SdsParams())
        store.load(key, me, 1)
        for begin in range(0, count, _BATCH):
            made = [said(codec, me, now - count + n) for n in range(begin, begin + _BATCH)]
            store.commit(key, [*made, fx.ClockSet(now)])
        async with SdsChannel(first.pubsub, "room", store=store) as server:
            await server.send(b"the last before it, which is signed")
            await server.give_snapshot(bytes(100_000), server.log[-1].clock)
            await server.send(b"what follows")
            async with SdsChannel(second.pubsub, "room", join_snapshot=1) as newcomer:
                start = trio.current_time()
                await connect_all([(first, second)])
                snapshot = await newcomer.snapshot(600.0)
                assert snapshot is not None
                await eventually(lambda: len(newcomer.log) == 2, 600.0)
                took = trio.current_time() - start
    print(json.dumps({"joins": "a snapshot", "messages": count, "seconds": took}))


def said(codec: Codec, sender: str, clock: int) -> fx.Logged:
    message = Message(channel_id="0", sender_id=sender, lamport=clock, content=b"%d" % clock)
    raw, message_id = codec.encode(message)
    message = replace(message, message_id=message_id)
    return fx.Logged(message, LogEntry(clock, sender, clock), raw, b"")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=16, help="bytes of a simulated content")
    parser.add_argument("--hosts", action="store_true", help="only real hosts")
    parser.add_argument("--snapshot", action="store_true", help="only a snapshot, on real hosts")
    args = parser.parse_args()
    if args.snapshot:
        trio.run(with_snapshot, args.messages)
        return
    if args.hosts:
        trio.run(real, args.messages)
        return
    requests, size = fill_hole(50_000, 31_415)
    print(json.dumps({"hole_in": 50_000, "requests": requests, "bytes": size}), flush=True)
    simulated(args.messages, args.size)


if __name__ == "__main__":
    main()
