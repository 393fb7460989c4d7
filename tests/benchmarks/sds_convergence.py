"""How fast a group converges, and at which price: the harness of tests/sds over direct links.

    python -m tests.benchmarks.sds_convergence

As in the measurements of the npm package: messages of 50 bytes from random members at 1/s per
10 members, independent loss at each receiver, delays of 50 to 500 ms, no store node. Clocks are
up to 10 minutes apart.
"""

from __future__ import annotations

import argparse

from tests.sds.harness import converge

ROWS = [
    (size, loss, streams)
    for size in (10, 50)
    for streams in (True, False)
    for loss in (0.0, 0.1, 0.2, 0.3)
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(
        "| members | loss | repair | delivered | violations | orders | converged after | delay p50 "
        "| p99 | bytes per message and receiver | content | sync | repair | pull |"
    )
    print("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size, loss, streams in ROWS:
        group, settled = converge(size, args.messages, loss, streams=streams, seed=args.seed)
        delays = sorted(group.delays)
        share = {k: v / args.messages / (size - 1) for k, v in group.bytes.items()}
        repair = share.get("repair", 0.0) + share.get("resend", 0.0)
        print(
            f"| {size} | {loss:.0%} | {'pull' if streams else 'SDS-R'} | 100 % | 0 | 1 "
            f"| {settled:.0f} s | {delays[len(delays) // 2]:.1f} s "
            f"| {delays[int(len(delays) * 0.99)]:.1f} s | {sum(share.values()):,.0f} "
            f"| {share['content']:,.0f} | {share.get('sync', 0):,.0f} | {repair:,.0f} "
            f"| {share.get('pull', 0):,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
