"""When the last byte of a large message arrives at best, computed offline on an overlay.

    python -m tests.benchmarks.tree_limits [--latency uniform|plane] [--nodes N] [--seed S]
                                           [--size BYTES ...] [--uplink MBITS ...]

Joins `headline`'s overlay (300 simulated seconds), and prints p50 and p99 from five sources, and
the nodes that found no parent. Every host sends over one uplink, one thing after the other; links
add their latency. A message goes whole or in pieces that are passed on at once, along shortest-path
trees, or trees of two children a node made by local rules.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.simulation import Simulation

PIECES = 64
CHILDREN = 2
JOINED_AT = 299.0


class OfflineOverlay:
    """The links of a joined overlay: `delays` is a dense matrix in seconds, 0 where none is."""

    def __init__(self, variant: str, nodes: int, seed: int) -> None:
        settings = {"network.nodes": nodes}
        (scenario,) = loading.load("headline").scenarios(settings, [variant]).values()
        simulation = Simulation(scenario, seed, Records(scenario.capacity))
        for node in range(nodes):
            simulation.loop.at(scenario.join.over * node / nodes, simulation.start, node)
        simulation.loop.run(JOINED_AT)
        matrix, ids = simulation.overlay()
        delay = simulation.network.delay
        self.delays = np.zeros(matrix.shape)
        for row, column in zip(*matrix.nonzero(), strict=True):
            cost = delay(ids[row], ids[column])
            self.delays[row, column] = self.delays[column, row] = cost
        self.distances, self.parents = dijkstra(
            csr_matrix(self.delays), directed=False, return_predecessors=True
        )


@dataclass(slots=True)
class Tree:
    """Children of each node, and the nodes that found no parent."""

    root: int
    children: list[list[int]]
    left_over: int = 0


def shortest_path_tree(parents: Any, distances: Any, root: int) -> Tree:
    """The tree of `root`; nearer children are sent to first."""
    children: list[list[int]] = [[] for _ in parents[root]]
    for node in np.argsort(distances[root]):
        if parents[root][node] >= 0:
            children[parents[root][node]].append(int(node))
    return Tree(root, children)


def bounded_tree(delays: Any, root: int) -> Tree:
    """A node asks the neighbours that have a parent in the order in which their word arrives; one
    that has its children already refuses, and these are asked next."""
    total = len(delays)
    neighbors = [np.flatnonzero(row).tolist() for row in delays]
    tree = Tree(root, [[] for _ in range(total)])
    parent: dict[int, int] = {}
    offers: list[list[int]] = [[] for _ in range(total)]
    asked: list[set[int]] = [set() for _ in range(total)]
    busy = [False] * total
    queue: list[tuple[float, int, str, int, int]] = []
    order = count()

    def send(now: float, kind: str, to: int, by: int) -> None:
        heapq.heappush(queue, (now + delays[by, to], next(order), kind, to, by))

    def ask(now: float, node: int) -> None:
        if busy[node] or node in parent or node == root:
            return
        for other in offers[node]:
            if other not in asked[node]:
                asked[node].add(other)
                busy[node] = True
                send(now, "graft", other, node)
                return

    for node in neighbors[root]:
        send(0.0, "offer", node, root)
    while queue:
        now, _, kind, to, by = heapq.heappop(queue)
        if kind == "offer":
            if by not in offers[to]:
                offers[to].append(by)
            ask(now, to)
        elif kind == "graft":
            # Only a node with a parent offers, so that no cycle can form.
            has_room = len(tree.children[to]) < CHILDREN
            if has_room:
                tree.children[to].append(by)
            send(now, "accepted" if has_room else "refused", by, to)
        elif kind == "accepted":
            parent[to] = by
            for other in neighbors[to]:
                if other != by:
                    send(now, "offer", other, to)
        else:
            busy[to] = False
            for other in tree.children[by]:
                if other != to and other not in offers[to] and delays[to, other]:
                    offers[to].append(other)
            ask(now, to)
    tree.left_over = total - 1 - len(parent)
    return tree


def arrivals(delays: Any, tree: Tree, seconds: float, pieces: int) -> Any:
    """Seconds until each node has everything, with `seconds` for each copy of all pieces."""
    total = len(delays)
    seconds /= pieces
    done = np.full(total, np.inf)
    times: dict[int, Any] = {tree.root: np.zeros(pieces)}
    queue = [tree.root]
    for node in queue:
        here = times.pop(node)
        done[node] = here[-1]
        free, children = 0.0, tree.children[node]
        sent = np.zeros((len(children), pieces))
        for index, at in enumerate(here):
            for child in range(len(children)):
                free = max(free, at) + seconds
                sent[child, index] = free
        for child, leaves in zip(children, sent, strict=True):
            times[child] = leaves + delays[node, child]
            queue.append(child)
    return done


def times(overlay: OfflineOverlay, sources: list[int], copy: float) -> dict[str, tuple[Any, int]]:
    """Seconds for each source (rows) and node, and nodes left over, by way of sending; one copy
    takes `copy` seconds to send."""
    delays, distances = overlay.delays, overlay.distances
    limit = [copy + distances[source] for source in sources]
    found = {"limit: one copy, and the shortest way": (np.stack(limit), 0)}

    def add(name: str, tree_of: Callable[[int], Tree], pieces: int = PIECES) -> None:
        trees = [tree_of(source) for source in sources]
        rows = [arrivals(delays, tree, copy, pieces) for tree in trees]
        found[name] = (np.stack(rows), sum(tree.left_over for tree in trees))

    def shortest(source: int) -> Tree:
        return shortest_path_tree(overlay.parents, distances, source)

    add("whole, along the shortest-path tree", shortest, 1)
    add(f"{PIECES} pieces, along the same tree", shortest)
    add(f"{PIECES} pieces, two children", lambda root: bounded_tree(delays, root))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--latency", choices=["uniform", "plane"], default="uniform")
    add("--nodes", type=int, default=1000, help="size of the overlay (1000)")
    add("--seed", type=int, default=1, help="seed of the run (1)")
    add("--size", type=int, nargs="*", default=[1_000_000], help="bytes of a message (1000000)")
    add("--uplink", type=float, nargs="*", default=[20.0], help="Mbit/s of each host")
    args = parser.parse_args()
    print("joining the overlay ...", file=sys.stderr)
    overlay = OfflineOverlay(f"episub, {args.latency}, one source", args.nodes, args.seed)
    sources = random.Random(args.seed).sample(range(args.nodes), 5)
    for size in args.size:
        for uplink in args.uplink:
            limit: tuple[float, float] | None = None
            print(f"{size} bytes, uplinks of {uplink} Mbit/s")
            copy = size / (uplink * 125e3)
            for name, (rows, left) in times(overlay, sources, copy).items():
                rows = np.where(np.isinf(rows), np.nan, rows)
                values = np.concatenate(
                    [np.delete(row, source) for row, source in zip(rows, sources, strict=True)]
                )
                p50, p99 = (float(np.nanquantile(values, share)) for share in (0.5, 0.99))
                limit = limit or (p50, p99)
                line = f"p50 {p50 * 1e3:8.0f} ms ({p50 / limit[0]:.2f}x)"
                line += f"   p99 {p99 * 1e3:8.0f} ms ({p99 / limit[1]:.2f}x)"
                print(f"  {name:<40} {line}   left over {left}", flush=True)


if __name__ == "__main__":
    main()
