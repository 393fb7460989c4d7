"""EpisubRouter against py-libp2p's GossipSub: the same hosts and messages, in turn, in one run.

    python -m tests.benchmarks --hosts 20 50

Each measurement has a process of its own, so that none pays for what another left behind. Prints a
line of JSON for each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tests.benchmarks.contenders import CONTENDERS
from tests.benchmarks.measuring import Load, measure
from tests.benchmarks.scenes import READY_TIMEOUT, in_own_process

_RATES = {20: 1.0, 50: 0.4}
"""Messages per second at which no router here saturates half a core, which loses messages and makes
what is counted cheap; else hosts x rate = 20."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    for hosts in arguments.hosts:
        load = Load(
            hosts=hosts,
            messages=arguments.messages,
            warm_up=arguments.warm_up,
            rate=arguments.rate or _RATES.get(hosts, 20 / hosts),
            size=arguments.size,
            sources=arguments.sources,
            settle=arguments.settle,
            idle=arguments.idle,
            seed=arguments.seed,
            computing_clock=arguments.computing_clock,
        )
        for name in arguments.only * arguments.repeat:
            print(f"{name}, {hosts} hosts: {CONTENDERS[name].description}", file=sys.stderr)
            row = {"router": name, "hosts": hosts, "sources": load.sources}
            if counted := in_own_process(measure, name, load):
                print(json.dumps({**row, **counted}), flush=True)
            else:
                print(f"not every host had 4 neighbours in {READY_TIMEOUT:g} s", file=sys.stderr)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    add = parser.add_argument
    add("--hosts", type=int, nargs="+", default=[20, 50])
    add("--messages", type=int, default=100, help="messages that count (default: 100)")
    add("--warm-up", type=int, default=20, help="messages before those (default: 20)")
    add("--rate", type=float, help="messages per second (default: 1 at 20 hosts, 0.4 at 50)")
    add("--size", type=int, default=256, help="bytes of a message (default: 256)")
    add("--sources", type=int, default=1, help="hosts that publish, in turn (default: 1)")
    add("--settle", type=float, default=20.0, help="seconds before the warm-up (default: 20)")
    add("--idle", type=float, default=15.0, help="seconds without messages (default: 15)")
    add("--only", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    add("--repeat", type=int, default=1, help="runs of each")
    add("--seed", type=int, default=1)
    add(
        "--computing-clock",
        action="store_true",
        help="let time pass as the hosts' process computes, and skip where it waits: "
        "for machines that have other work",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
