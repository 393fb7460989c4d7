"""What trees could reach at best on an overlay of the simulator, computed offline.

    python -m tests.benchmarks.tree_limits [--latency uniform|plane] [--nodes N] [--seed S] [--json]
                                           [--size BYTES ... --uplink MBITS ...]
                                           [--loss SHARE] [--crash SHARE]

Joins `headline`'s overlay (300 simulated seconds) and gossipsub v1.1's in the same network, and
prints p50 and p99 of the latency from 50 sources, as multiples of gossipsub's flood over its mesh:
along the shortest-path tree of each source, along the best tree that all share, and along the trees
of k roots, each source using the nearest. Hops cost nothing but the latency of their links. With
sizes and uplinks (0: mixed ones) it prints when large messages would be everywhere instead; with
a share of frames that are lost, or of nodes that have crashed without a word, what repair within
one round trip would leave, beside the flood under the same faults, and what a join and a crash
cost.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from episub_router.protocol.params import MembershipParams
from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.simulation import Simulation
from tests.benchmarks import piece_limits, repair_limits
from tests.benchmarks.repair_limits import Fault

SOURCES = 50
JOINED_AT = 299.0
DRAWS = 10
"""Messages of each source where frames are lost or nodes have crashed."""


class OfflineOverlay:
    """The links of a joined overlay: `delays` is a dense matrix in seconds, 0 where none is."""

    def __init__(self, variant: str, nodes: int, seed: int) -> None:
        settings = {"network.nodes": nodes}
        (scenario,) = loading.load("headline").scenarios(settings, [variant]).values()
        simulation = Simulation(scenario, seed, Records(scenario.capacity))
        for node in range(nodes):
            simulation.loop.at(scenario.join.over * node / nodes, simulation.start, node)
        simulation.loop.run(JOINED_AT)
        matrix, self.ids = simulation.overlay()
        delay = simulation.network.latency.delay
        self.delays = np.zeros(matrix.shape)
        for row, column in zip(*matrix.nonzero(), strict=True):
            cost = delay(self.ids[row], self.ids[column])
            self.delays[row, column] = self.delays[column, row] = cost
        self.distances, self.parents = dijkstra(
            csr_matrix(self.delays), directed=False, return_predecessors=True
        )

    def along_tree(self, root: int, sources: list[int]) -> Any:
        """Seconds from each of `sources` (rows) to all nodes along the tree of `root`."""
        tree = np.zeros_like(self.delays)
        for node, parent in enumerate(self.parents[root]):
            if parent >= 0:
                tree[node, parent] = tree[parent, node] = self.delays[node, parent]
        return dijkstra(csr_matrix(tree), directed=False, indices=sources)

    def links(self) -> list[list[tuple[int, float]]]:
        """The neighbours of each node, and the seconds to each."""
        rows = (np.nonzero(row)[0].tolist() for row in self.delays)
        return [
            [(other, float(self.delays[node, other])) for other in others]
            for node, others in enumerate(rows)
        ]

    def far_roots(self, count: int) -> list[int]:
        """`count` roots far from each other, the centre first."""
        roots = [int(self.distances.max(axis=1).argmin())]
        while len(roots) < count:
            roots.append(int(self.distances[roots].min(axis=0).argmax()))
        return roots


def percentiles(latencies: Any, sources: list[int]) -> tuple[float, float]:
    """p50 and p99 (nearest rank, seconds) of what arrives elsewhere than at its source."""
    values = np.sort(
        np.concatenate(
            [np.delete(row, source) for row, source in zip(latencies, sources, strict=True)]
        )
    )
    ranks = (math.ceil(share * len(values)) - 1 for share in (0.5, 0.99))
    p50, p99 = (float(values[rank]) for rank in ranks)
    return p50, p99


def limits(overlay: OfflineOverlay, sources: list[int]) -> dict[str, tuple[float, float]]:
    """p50 and p99 in seconds by kind of tree."""
    found = {
        "a shortest-path tree for each source": percentiles(overlay.distances[sources], sources)
    }
    centres = np.argsort(overlay.distances.sum(axis=1))[:20]
    found["the best shared tree of 20"] = min(
        percentiles(overlay.along_tree(int(root), sources), sources) for root in centres
    )
    for count in (2, 4, 8, 16, 32):
        roots = overlay.far_roots(count)
        trees = [overlay.along_tree(root, sources) for root in roots]
        nearest = overlay.distances[roots][:, sources].argmin(axis=0)
        rows = np.stack([trees[tree][row] for row, tree in enumerate(nearest)])
        found[f"{count} trees, each source uses the nearest root's"] = percentiles(rows, sources)
    return found


def print_repair(overlay: OfflineOverlay, mesh: OfflineOverlay, args: argparse.Namespace) -> None:
    """p50 and p99 where frames are lost or nodes have crashed, from five sources."""
    rng = random.Random(args.seed)
    sources = rng.sample(range(args.nodes), 5)
    rows: dict[str, list[list[float]]] = {}
    links, mesh_links = overlay.links(), mesh.links()
    crashing = [node for node in range(args.nodes) if node not in sources]
    for source in [*sources] * DRAWS:
        fault = Fault(args.loss, {*rng.sample(crashing, round(args.crash * args.nodes))})
        made = {"gossipsub's flood": repair_limits.flooded(mesh_links, source, fault, rng)}
        for name, lossy in (("repair in one round trip", False), ("... itself lossy", True)):
            made[name] = repair_limits.arrivals(
                links, overlay.parents[source].tolist(), overlay.distances[source].tolist(),
                source, fault, rng, repair_lossy=lossy,
            )  # fmt: skip
        for name, times in made.items():
            live = (t for node, t in enumerate(times) if node not in {source, *fault.crashed})
            rows.setdefault(name, []).append([*live])
    print(f"{args.nodes} nodes, {args.latency}, seed {args.seed}, 5 sources, {DRAWS} messages each")
    print(f"{100 * args.loss:g} % of frames lost, {100 * args.crash:g} % of nodes crashed")
    p50s, p99s = {}, {}
    for name, arrived in rows.items():
        values = np.sort(np.concatenate([np.array(row) for row in arrived]))
        p50s[name], p99s[name] = (
            float(values[math.ceil(share * len(values)) - 1]) for share in (0.5, 0.99)
        )
        p50, p99 = p50s[name], p99s[name]
        flood50, flood99 = p50s["gossipsub's flood"], p99s["gossipsub's flood"]
        print(
            f"{name:<46} p50 {p50 * 1e3:6.1f} ms ({p50 / flood50:.2f}x)"
            f"   p99 {p99 * 1e3:6.1f} ms ({p99 / flood99:.2f}x)"
            f"   not reached {100 * float(np.isinf(values).mean()):.3f} %"
        )
    params = MembershipParams()
    for trees in (1, 5):
        join = repair_limits.join_bytes(params, trees)
        crash = repair_limits.leave_bytes(params, trees)
        print(f"{trees} sources: a join takes {join:,} control bytes at least, a crash {crash:,}")


def print_large(overlay: OfflineOverlay, args: argparse.Namespace) -> None:
    """When messages of `args.size` bytes are everywhere, from five sources."""
    sources = random.Random(args.seed).sample(range(args.nodes), 5)
    for size in args.size:
        for uplink in args.uplink:
            case = piece_limits.case(size, uplink, args.nodes, args.seed)
            limit = 0.0, 0.0
            print(f"{size} bytes, uplinks of {uplink or piece_limits.MIXED_UPLINKS} Mbit/s")
            for name, (rows, left) in piece_limits.times(overlay, sources, case).items():
                rows = np.where(np.isinf(rows), np.nan, rows)
                values = np.concatenate(
                    [np.delete(row, source) for row, source in zip(rows, sources, strict=True)]
                )
                p50, p99 = (float(np.nanquantile(values, share)) for share in (0.5, 0.99))
                limit = limit if limit[0] else (p50, p99)
                line = f"p50 {p50 * 1e3:8.0f} ms ({p50 / limit[0]:.2f}x)"
                line += f"   p99 {p99 * 1e3:8.0f} ms ({p99 / limit[1]:.2f}x)"
                print(f"  {name:<40} {line}   left over {left}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.tree_limits",
        description="What trees could reach at best on a simulated overlay.",
    )
    parser.add_argument("--latency", choices=["uniform", "plane"], default="uniform")
    parser.add_argument("--nodes", type=int, default=1000, help="size of the overlay (1000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the run (1)")
    parser.add_argument("--loss", type=float, default=0.0, help="share of frames lost (0)")
    parser.add_argument("--crash", type=float, default=0.0, help="share of nodes crashed (0)")
    parser.add_argument("--json", action="store_true", help="print JSON, in seconds")
    parser.add_argument("--size", type=int, nargs="*", default=[], help="bytes of a message")
    parser.add_argument(
        "--uplink", type=float, nargs="*", default=[20.0], help="Mbit/s of each host; 0: mixed"
    )
    args = parser.parse_args()
    if args.size:
        print("joining the overlay ...", file=sys.stderr)
        variant = f"episub, {args.latency}, one source"
        print_large(OfflineOverlay(variant, args.nodes, args.seed), args)
        return 0
    print("joining both overlays ...", file=sys.stderr)
    overlay, mesh = (
        OfflineOverlay(f"{router}, {args.latency}, one source", args.nodes, args.seed)
        for router in ("episub", "gossipsub")
    )
    if args.loss or args.crash:
        print_repair(overlay, mesh, args)
        return 0
    sources = random.Random(args.seed).sample(range(args.nodes), min(SOURCES, args.nodes))
    flood = percentiles(mesh.distances[sources], sources)
    found = {"gossipsub's flood": flood, **limits(overlay, sources)}
    if args.json:
        print(json.dumps(found))
        return 0
    print(f"{args.nodes} nodes, {args.latency}, seed {args.seed}, {len(sources)} sources")
    for name, (p50, p99) in found.items():
        times = f"p50 {p50 * 1e3:6.1f} ms ({p50 / flood[0]:.2f}x)"
        print(f"{name:<46} {times}   p99 {p99 * 1e3:6.1f} ms ({p99 / flood[1]:.2f}x)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
