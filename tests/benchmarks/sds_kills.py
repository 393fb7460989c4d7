"""Kills by the thousand: nothing lost, doubled, or out of order.

    python -m tests.benchmarks.sds_kills --kills 10000

In rounds of 500 kills, each a group of its own; see tests/sds/kills.py.
"""

from __future__ import annotations

import argparse
import json
import time

from tests.sds.kills import killed

ROUND = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="a line of JSON")
    args = parser.parse_args()
    done = sent = 0
    start = time.perf_counter()
    for seed in range(args.seed, args.seed + -(-args.kills // ROUND)):
        group = killed(min(ROUND, args.kills - done), seed=seed)
        done += group.kills
        sent += len(group.sent_at)
    if args.json:
        # `killed` raises where one of these isn't 0.
        wrong = dict.fromkeys(("lost", "twice", "contradictions"), 0)
        took = time.perf_counter() - start
        print(json.dumps({"kills": done, "messages": sent, **wrong, "seconds": took}))
        return
    print(
        f"{done} kills, {sent} messages: 0 lost, 0 twice, 0 causal contradictions, 0 clocks back; "
        f"{time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
