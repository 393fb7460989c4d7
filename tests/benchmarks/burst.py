"""A burst from one source: does it arrive whole, how fast, and with what left waiting.

    python -m tests.benchmarks.burst --hosts 20 --messages 10000
    python -m tests.benchmarks.burst --hosts 20 --messages 500 --only gossipsub-defaults episub

One line of JSON for each router: seconds to publish and to the last delivery, the fewest messages
that a host got, CPU time for a delivery, the counters of drops, and the process's largest memory in
MiB. With `--computing-clock` time is the process's own, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from typing import Any

import trio

from episub_router import EpisubRouter
from episub_router.net.counters import ADVICE
from tests.benchmarks.clock import computing_clock
from tests.benchmarks.contenders import Contender
from tests.benchmarks.scenes import COMPARED, TOPIC, in_own_process, scene, until_linked

_DROPS = {reason.value for reason in ADVICE}

_SETTLE = 20.0
"""Seconds after the last host has links: their first upkeep is over."""


def measure(
    contender: Contender, hosts: int, messages: int, size: int, patience: float, computing: bool
) -> dict[str, Any]:
    clock = computing_clock() if computing else None
    return trio.run(_burst, contender, hosts, messages, size, patience, clock=clock)


async def _burst(
    contender: Contender, hosts: int, messages: int, size: int, patience: float
) -> dict[str, Any]:
    """Publish `messages` of `size` bytes without a pause; wait `patience` s for the last one."""
    async with scene(contender, hosts) as (nodes, subscriptions), trio.open_nursery() as nursery:
        await until_linked(nodes)
        await trio.sleep(_SETTLE)
        got = [0] * hosts
        last = [0.0]

        async def read(index: int) -> None:
            while True:
                await subscriptions[index].get()
                got[index] += 1
                last[0] = trio.current_time()

        for index in range(hosts):
            nursery.start_soon(read, index)
        cpu, start = time.process_time(), trio.current_time()
        for number in range(messages):
            data = number.to_bytes(4, "big") + bytes(size - 4)
            await nodes[0].pubsub.publish(TOPIC, data)
        published = trio.current_time() - start
        with trio.move_on_after(patience):
            while min(got) < messages:  # noqa: ASYNC110
                await trio.sleep(0.1)
        cpu = time.process_time() - cpu
        drops: Counter[str] = Counter()
        for node in nodes:
            if isinstance(node.router, EpisubRouter):
                counts = node.router.counters()
                drops.update({name: counts[name] for name in _DROPS & counts.keys()})
        nursery.cancel_scope.cancel()
        return {
            "router": contender.name,
            "hosts": hosts,
            "messages": messages,
            "bytes": size,
            "publish_s": round(published, 1),
            "last_delivery_s": round(last[0] - start, 1),
            "fewest": min(got),
            "cpu_ms_per_delivery": round(1000 * cpu / (sum(got) - got[0]), 2),
            "drops": dict(drops),
            "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--patience", type=float, default=300.0)
    parser.add_argument("--only", nargs="+", default=["episub"], choices=COMPARED)
    parser.add_argument("--computing-clock", action="store_true")
    given = parser.parse_args()
    for name in given.only:
        found = in_own_process(
            measure,
            name,
            given.hosts,
            given.messages,
            given.size,
            given.patience,
            given.computing_clock,
        )
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
