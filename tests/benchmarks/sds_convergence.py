"""How fast a group converges, and at which price: the harness of tests/sds over both networks.

    python -m tests.benchmarks.sds_convergence

As in the measurements of the npm package: messages of 50 bytes from random members at 1/s per
10 members, independent loss, delays of 50 to 500 ms, no store node. Clocks are
up to 20 minutes apart. Over direct links a broadcast is lost independently at each receiver and
direct streams work; over Episub in the simulator each transmission between two nodes is lost
with that probability, Episub's control messages and the direct streams' among them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import product

from episub_router.sds.protocol.params import SdsParams
from tests.sds.harness import Group, converge
from tests.sds.over_episub import EpisubGroup

NETWORKS = {"direct": Group, "episub": EpisubGroup}


def rows(
    networks: Iterable[str], sizes: Iterable[int], losses: Iterable[float]
) -> Iterator[tuple[str, int, float, bool]]:
    """Network, members, loss and whether there are direct streams."""
    return product(networks, sizes, losses, (True, False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--members", nargs="+", type=int, default=[10, 50])
    parser.add_argument("--loss", nargs="+", type=float, default=[0.0, 0.1, 0.2, 0.3])
    parser.add_argument("--repair", nargs=2, type=float, help="repair_min and repair_max, in s")
    args = parser.parse_args()
    params = None
    if args.repair is not None:
        params = SdsParams(repair_min=args.repair[0], repair_max=args.repair[1])
    print(
        "| network | members | loss | repair | delivered | violations | orders | converged after "
        "| delay p50 | p99 | bytes per message and receiver "
        "| content | sync | repair | pull | overlay |"
    )
    print("|---|---:|---:|---|" + "---:|" * 12)
    for network, size, loss, streams in rows(args.networks, args.members, args.loss):
        group, settled = converge(
            size,
            args.messages,
            loss,
            streams=streams,
            seed=args.seed,
            kind=NETWORKS[network],
            params=params,
        )
        delays = sorted(group.delays)
        share = {k: v / args.messages / (size - 1) for k, v in group.bytes.items()}
        repair = share.get("repair", 0.0) + share.get("resend", 0.0)
        print(
            f"| {network} | {size} | {loss:.0%} | {'pull' if streams else 'SDS-R'} | 100 % | 0 | 1 "
            f"| {settled:.0f} s | {delays[len(delays) // 2]:.1f} s "
            f"| {delays[int(len(delays) * 0.99)]:.1f} s | {sum(share.values()):,.0f} "
            f"| {share['content']:,.0f} | {share.get('sync', 0):,.0f} | {repair:,.0f} "
            f"| {share.get('pull', 0):,.0f} | {share.get('overlay', 0):,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
