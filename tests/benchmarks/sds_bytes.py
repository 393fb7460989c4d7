"""Bytes for each 10-byte message in a group of fifty, by rate and loss.

    python -m tests.benchmarks.sds_bytes

Per message and receiver, sync messages and direct streams among them, without pubsub's envelope.
Senders are peer ids of 52 characters.
"""

from __future__ import annotations

import argparse
import json
from itertools import product

from tests.sds.harness import Group, Links

_PEER_ID = 52


def measure(
    every: float, loss: float, *, seed: int, members: int = 50, streams: bool = True
) -> tuple[dict[str, float], list[float]]:
    """Bytes by purpose for each message and receiver, and the delays of all deliveries (s)."""
    group = Group(members, seed=seed, links=Links(loss=loss, streams=streams))
    names = sorted(group.members)
    group.send(names[0], b"0123456789")
    group.run(120.0)
    group.bytes.clear()
    group.published.clear()
    group.delays.clear()
    messages = 40 if every >= 1 else 200
    for _ in range(messages):
        group.send(group.rng.choice(names), b"0123456789")
        group.run(group.rng.expovariate(1 / every))
    assert group.settle(900.0) is not None
    group.check()
    share = {purpose: size / messages / (members - 1) for purpose, size in group.bytes.items()}
    for purpose, count in group.published.items():
        share[purpose] += (_PEER_ID - len(names[0])) * count / messages
    share["syncs"] = group.published["sync"] / messages
    return share, sorted(group.delays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", nargs="+", type=float, default=[20.0, 5.0, 1.0, 0.2])
    parser.add_argument("--loss", nargs="+", type=float, default=[0.0, 0.05, 0.3])
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--no-streams", action="store_true")
    args = parser.parse_args()
    for every, loss, seed in product(args.every, args.loss, args.seeds):
        share, delays = measure(
            every, loss, seed=seed, members=args.members, streams=not args.no_streams
        )
        syncs = share.pop("syncs")
        row = {
            "every_s": every, "loss": loss, "seed": seed, "bytes": sum(share.values()), **share,
            "syncs": syncs, "p99_s": delays[int(len(delays) * 0.99)],
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
