"""What rings can give at most: all honest nodes know all, and every hostile one withholds all.

    python -m tests.benchmarks.ring_limits [--nodes N] [--seeds N]

For each number of rings and share of hostile nodes: honest nodes without an honest neighbour on a
ring (h to the power of 2 r), and those outside of the largest component of honest nodes, in % of
the honest ones. All other links of a node count as hostile.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from random import Random

RINGS = (1, 2, 3)
SHARES = (0.05, 0.1, 0.2, 1 / 3, 0.5)


def cut_off(nodes: int, rings: int, share: float, seed: int) -> tuple[float, float]:
    """Of the honest nodes: the share that is alone, and that outside of the largest component."""
    rng = Random(seed)
    hostile = set(rng.sample(range(nodes), round(share * nodes)))
    links: dict[int, set[int]] = {node: set() for node in range(nodes) if node not in hostile}
    for _ in range(rings):
        order = rng.sample(range(nodes), nodes)
        for before, after in zip(order, order[1:] + order[:1], strict=True):
            if before in links and after in links:
                links[before].add(after)
                links[after].add(before)
    alone = sum(not others for others in links.values())
    return alone / len(links), 1 - _largest(links) / len(links)


def _largest(links: dict[int, set[int]]) -> int:
    """The size of the largest component."""
    unseen = set(links)
    sizes = []
    while unseen:
        found = [unseen.pop()]
        for node in found:
            new = links[node] & unseen
            unseen -= new
            found += new
        sizes.append(len(found))
    return max(sizes)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each number of rings and share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args(arguments)
    print("rings  hostile, %  alone, %  as computed  cut off, %")
    for rings in RINGS:
        for share in SHARES:
            runs = [cut_off(options.nodes, rings, share, seed) for seed in range(options.seeds)]
            alone, outside = (100 * sum(part) / len(runs) for part in zip(*runs, strict=True))
            computed = 100 * share ** (2 * rings)
            print(f"{rings:5}{100 * share:12.1f}{alone:10.3f}{computed:13.3f}{outside:12.3f}")


if __name__ == "__main__":
    main()
