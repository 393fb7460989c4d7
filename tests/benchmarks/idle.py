"""What hosts cost that do nothing, and how soon they do nothing: Episub and GossipSub in one run.

    python -m tests.benchmarks.idle --hosts 20 50

All hosts of a router are in one process and subscribe within five seconds. Time is the process's
own (`clock`): it passes as the hosts compute, and jumps to the next timer where they would wait.
CPU is the share of a core that all hosts take together, in windows from the last subscription on;
dials are those of their routers in these windows, and links what they have in the end.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import trio

from episub_router import EpisubRouter
from episub_router.net.counters import Ordinary
from tests.benchmarks.clock import computing_clock
from tests.benchmarks.contenders import Contender
from tests.benchmarks.scenes import (
    COMPARED,
    in_own_process,
    is_linked,
    neighbors,
    scene,
)
from tests.hosts import Node

_JOIN = 5.0
"""Seconds in which the hosts subscribe."""

_WINDOWS = (0, 20, 30, 60, 120, 300, 600, 900)
"""Seconds after the last subscription at which windows begin and end."""


def measure(contender: Contender, hosts: int, windows: Sequence[int]) -> dict[str, Any]:
    return trio.run(_measure, contender, hosts, windows, clock=computing_clock())


async def _measure(contender: Contender, hosts: int, windows: Sequence[int]) -> dict[str, Any]:
    async with scene(contender, hosts, _JOIN) as (nodes, _), trio.open_nursery() as nursery:
        start = trio.current_time()
        linked: list[float] = []
        nursery.start_soon(_note_links, nodes, start, linked)
        shares, dials = [], []
        for begin, end in pairwise(windows):
            await trio.sleep_until(start + begin)
            cpu, began = time.process_time(), trio.current_time()
            await trio.sleep_until(start + end)
            shares.append((time.process_time() - cpu) / (trio.current_time() - began))
            dials.append(_dials(nodes) - sum(dials))
        nursery.cancel_scope.cancel()
        return {
            "linked": linked[0] if linked else None,
            "cpu": shares,
            "dials": dials,
            "links": sum(neighbors(nodes)) // 2,
        }


def _dials(nodes: Sequence[Node]) -> int:
    """What the routers have dialled so far, from before the first subscription on: Episub's alone
    dial, and count it."""
    routers = [node.router for node in nodes if isinstance(node.router, EpisubRouter)]
    return sum(router.counters().get(Ordinary.DIALS.value, 0) for router in routers)


async def _note_links(nodes: Sequence[Node], start: float, linked: list[float]) -> None:
    while not is_linked(nodes):  # noqa: ASYNC110 (stock routers have no event to wait for)
        await trio.sleep(0.1)
    linked.append(trio.current_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--only", nargs="+", default=list(COMPARED[:4]), choices=COMPARED)
    parser.add_argument("--until", type=int, default=_WINDOWS[-1], help="seconds (default: 900)")
    given = parser.parse_args()
    windows = [at for at in _WINDOWS if at <= given.until]
    heads = [f"{a}-{b} s" for a, b in pairwise(windows)]
    for hosts in given.hosts:
        for name in given.only:
            found = in_own_process(measure, name, hosts, windows)
            shares = dict(zip(heads, found["cpu"], strict=True))
            dials = {f"{head}, dials": n for head, n in zip(heads, found["dials"], strict=True)}
            row = {"router": name, "hosts": hosts, "linked_s": found["linked"], **shares}
            print(json.dumps({**row, "links": found["links"], **dials}), flush=True)


if __name__ == "__main__":
    main()
