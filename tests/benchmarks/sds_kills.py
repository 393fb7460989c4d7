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
    args = parser.parse_args()
    done = sent = 0
    start = time.perf_counter()
    for seed in range(args.seed, args.seed + -(-args.kills // ROUND)):
        group = killed(min(ROUND, args.kills - done), seed=seed)
        done += group.kills
        sent += len(group.sent_at)
    # `killed` raises where one of these isn't 0.
    wrong = dict.fromkeys(("lost", "twice", "contradictions"), 0)
    took = time.perf_counter() - start
    print(json.dumps({"kills": done, "messages": sent, **wrong, "seconds": took}))


if __name__ == "__main__":
    main()
