"""Thirty real hosts in three sites: `python -m tests.benchmarks.three_sites [hosts a site]`.

Round trips take 5 ms inside a site and 80 ms between sites. Time is virtual, sockets are real
(`tests/router/sites.py`).
"""

from __future__ import annotations

import sys

import trio
from trio.testing import MockClock

from episub_router import EpisubParams, MembershipParams
from episub_router.net.counters import Reason
from tests.router.overlays import TOPIC, count, reading
from tests.router.sites import ACROSS, INSIDE, SITES, in_time, sites_of

_LOOK_AT = (30, 60, 120, 180, 240, 300)
"""Seconds since the last host joined."""
_WARM_UP, _MESSAGES = 20, 100


async def main(size: int) -> None:
    params = MembershipParams()
    print(
        f"{SITES} sites of {size} hosts, round trips of {INSIDE * 1000:g} ms inside a site and "
        f"{ACROSS * 1000:g} ms across"
    )
    async with sites_of(size, EpisubParams(membership=params)) as (sites, subscriptions):
        start = trio.current_time()
        for after in _LOOK_AT:
            await trio.sleep_until(start + after)
            print(
                f"after {after:3} s: {sites.near_inside(params.near_links):.0%} of the nearest "
                f"{params.near_links} neighbours, and {sites.kept_for_nearness():.0%} of the near "
                "links, are inside",
                flush=True,
            )
        async with reading(subscriptions) as readers:
            for number in range(_WARM_UP + _MESSAGES):
                if number == _WARM_UP:
                    crossings, copies = sites.crossings, count(sites.nodes, Reason.PAYLOADS_SENT)
                await sites.nodes[0].pubsub.publish(TOPIC, b"%d" % number)
                await in_time(
                    lambda number=number: all(len(got) > number for got in readers.received), 60
                )
        deliveries = _MESSAGES * (len(sites.nodes) - 1)
        sent = count(sites.nodes, Reason.PAYLOADS_SENT) - copies
        crossed = (sites.crossings - crossings) / _MESSAGES
        print(f"payload copies between sites, per message: {crossed:.2f}")
        print(f"payload copies, per delivery: {sent / deliveries:.3f}")


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    trio.run(main, size, clock=MockClock(autojump_threshold=0.001))
