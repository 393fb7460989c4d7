"""What many channels between two hosts cost: how soon all are served, and the CPU of idle ones.

    python -m tests.benchmarks.sds_channels

Two hosts over loopback in one process. The first has a message in each of its channels before it
meets the second, which has nothing. Then nobody says anything.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AsyncExitStack

import trio
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub

from episub_router.sds import SdsChannel
from tests.hosts import Node, connect_all, eventually, running_nodes


async def opened(stack: AsyncExitStack, node: Node, count: int) -> list[SdsChannel]:
    return [
        await stack.enter_async_context(SdsChannel(node.pubsub, "rooms", channel_id=f"room {n}"))
        for n in range(count)
    ]


async def served(count: int, idle: float) -> None:
    async with (
        running_nodes(2, router=lambda: FloodSub([PROTOCOL_ID])) as (first, second),
        AsyncExitStack() as stack,
    ):
        cpu = time.process_time()
        await trio.sleep(5.0)
        without = (time.process_time() - cpu) / 5.0
        servers = await opened(stack, first, count)
        newcomers = await opened(stack, second, count)
        for channel in servers:
            await channel.send(b"hello")
        start, cpu = trio.current_time(), time.process_time()
        await connect_all([(first, second)])
        await eventually(lambda: all(len(channel.log) for channel in newcomers), 900.0)
        print(
            f"{count} channels served after {trio.current_time() - start:.1f} s, "
            f"{time.process_time() - cpu:.1f} s of the CPU for both hosts",
            flush=True,
        )
        minutes = 0
        while minutes * 60 < idle:
            cpu = time.process_time()
            await trio.sleep(60.0)
            minutes += 1
            share = (time.process_time() - cpu) / 60 - without
            print(f"minute {minutes}: {share / 2:.2%} of a core for each host", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--idle", type=float, default=600.0, help="seconds of silence at the last")
    args = parser.parse_args()
    for count in args.channels:
        trio.run(served, count, args.idle if count == args.channels[-1] else 0.0)


if __name__ == "__main__":
    main()
