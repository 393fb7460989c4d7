"""A burst from one source: does it arrive whole, how fast, and with what left waiting.

    python -m tests.benchmarks.burst --hosts 20 --messages 10000

One line of JSON: seconds to publish and to the last delivery, the fewest messages that a host got,
the counters of drops, and the process's largest memory in MiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from typing import Any

import trio

from episub_router import ResilientPubsub
from episub_router.net.sight.warnings import ADVICE
from tests.router.overlays import TOPIC, overlay_of, router

_DROPS = {reason.value for reason in ADVICE}


async def burst(hosts: int, messages: int, size: int, patience: float) -> dict[str, Any]:
    """Publish `messages` of `size` bytes without a pause; wait `patience` s for the last one."""
    async with (
        overlay_of(hosts, pubsub_class=ResilientPubsub) as (nodes, subscriptions),
        trio.open_nursery() as nursery,
    ):
        got = [0] * hosts
        last = [0.0]

        async def read(index: int) -> None:
            while True:
                await subscriptions[index].get()
                got[index] += 1
                last[0] = time.perf_counter()

        for index in range(hosts):
            nursery.start_soon(read, index)
        start = time.perf_counter()
        for number in range(messages):
            data = number.to_bytes(4, "big") + bytes(size - 4)
            await nodes[0].pubsub.publish(TOPIC, data)
        published = time.perf_counter() - start
        with trio.move_on_after(patience):
            while min(got) < messages:  # noqa: ASYNC110
                await trio.sleep(0.1)
        drops: Counter[str] = Counter()
        for node in nodes:
            counts = router(node).counters()
            drops.update({name: counts[name] for name in _DROPS & counts.keys()})
        nursery.cancel_scope.cancel()
        return {
            "hosts": hosts,
            "messages": messages,
            "bytes": size,
            "publish_s": round(published, 1),
            "last_delivery_s": round(last[0] - start, 1),
            "fewest": min(got),
            "drops": dict(drops),
            "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--patience", type=float, default=300.0)
    given = parser.parse_args()
    print(json.dumps(trio.run(burst, given.hosts, given.messages, given.size, given.patience)))


if __name__ == "__main__":
    main()
