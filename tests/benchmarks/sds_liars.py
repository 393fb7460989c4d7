"""Honest members among liars, at any size: what must hold is checked from outside the protocol.

    python -m tests.benchmarks.sds_liars --members 500 --messages 2000

One member in five lies (see tests/sds/liars.py), others are killed and restarted, clocks are 5 s
apart, and every broadcast is lost with probability `--loss` at each receiver.
"""

from __future__ import annotations

import argparse
import time

from tests.sds.liars import honest_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--loss", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--near", type=int, help="direct peers of a member, on average")
    args = parser.parse_args()
    for seed in range(args.seeds):
        start = time.perf_counter()
        group = honest_run(args.members, args.messages, seed=seed, loss=args.loss, near=args.near)
        delays = sorted(group.delays)
        print(
            f"seed {seed}: {len(group.sent_at)} honest messages, {len(group.delays)} deliveries, "
            f"0 missing, 0 twice, 0 before their past; delay p50 {delays[len(delays) // 2]:.1f} s, "
            f"p99 {delays[int(len(delays) * 0.99)]:.1f} s; {time.perf_counter() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
