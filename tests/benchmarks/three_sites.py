"""Thirty real hosts in three sites, Episub's beside GossipSub's.

    python -m tests.benchmarks.three_sites [--hosts HOSTS_A_SITE] [--router episub gossipsub]

Round trips take 5 ms inside a site and 80 ms between sites. One host of each site publishes, in
turn. Time is virtual, sockets are real (`tests/router/sites.py`): what the hosts' CPU takes is no
part of the latencies, and is printed apart. GossipSub is py-libp2p's, within its degrees, over a
random graph of five links a host.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11
from trio.testing import MockClock

from episub_router import EpisubParams, MembershipParams
from tests.benchmarks.contenders import random_graph
from tests.benchmarks.scenes import Arrivals, percentile
from tests.hosts import bounded_gossipsub
from tests.router.overlays import TOPIC
from tests.router.sites import SITES, Sites, linked_sites, sites_of

_LOOK_AT = (30, 60, 120, 180, 240, 300)
"""Seconds since the last host joined."""
_WARM_UP, _MESSAGES = 21, 99
"""Messages before those that count, and those; each host in turn publishes a third of them."""


async def measure(sites: Sites, subscriptions: Sequence[ISubscriptionAPI]) -> dict[str, Any]:
    """Publish from one host of each site in turn; what it took."""
    arrivals, hosts = Arrivals(60.0, TOPIC), len(sites.nodes)
    async with trio.open_nursery() as nursery:
        for node, subscription in zip(sites.nodes, subscriptions, strict=True):
            nursery.start_soon(arrivals.read, node, subscription)
        for number in range(_WARM_UP + _MESSAGES):
            if number == _WARM_UP:
                crossings, copies, cpu = sites.crossings, sites.copies, time.process_time()
            # Hosts 0, 1 and 2 are in different sites.
            await arrivals.publish(sites.nodes[number % SITES], 8)
            await arrivals.complete(hosts - 1, number)
        nursery.cancel_scope.cancel()
    deliveries, latencies = _MESSAGES * (hosts - 1), arrivals.latencies(_WARM_UP)
    assert len(latencies) == deliveries, "messages are missing"
    crossed = (sites.crossings - crossings) / _MESSAGES
    return {
        "crossings": crossed,
        "payloads": (sites.copies - copies) / deliveries,
        "p50_ms": 1000 * percentile(latencies, 0.5),
        "p99_ms": 1000 * percentile(latencies, 0.99),
        "cpu_ms": 1000 * (time.process_time() - cpu) / deliveries,
    }


async def run_episub(size: int) -> dict[str, Any]:
    params = MembershipParams()
    async with sites_of(size, EpisubParams(membership=params)) as (sites, subscriptions):
        start = trio.current_time()
        inside = {}
        for after in _LOOK_AT:
            await trio.sleep_until(start + after)
            inside[f"near_links_inside_{after}_s"] = sites.kept_for_nearness()
            inside[f"nearest_inside_{after}_s"] = sites.near_inside(params.near_links)
        return await measure(sites, subscriptions) | inside


async def run_gossipsub(size: int) -> dict[str, Any]:
    links = [(max(link), min(link)) for link in random_graph(SITES * size, seed=1)]
    async with linked_sites(size, lambda: bounded_gossipsub(PROTOCOL_ID_V11), links) as joined:
        await trio.sleep(60)
        return await measure(*joined)


async def main(size: int, routers: Sequence[str]) -> None:
    for router in routers:
        found = await (run_episub if router == "episub" else run_gossipsub)(size)
        print(json.dumps({"router": router, "hosts": SITES * size, **found}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.three_sites")
    parser.add_argument("--hosts", type=int, default=10, help="hosts in each site (10)")
    parser.add_argument("--router", choices=["episub", "gossipsub"], nargs="*")
    arguments = parser.parse_args()
    trio.run(
        main,
        arguments.hosts,
        arguments.router or ["episub", "gossipsub"],
        clock=MockClock(autojump_threshold=0.001),
    )
