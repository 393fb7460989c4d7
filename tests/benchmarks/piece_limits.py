"""When the last byte of a large message arrives, computed offline on an overlay.

Every host sends over one uplink, one thing after the other; links add their latency. A message
goes whole or in pieces that are passed on at once, along shortest-path trees, trees of bounded
fan-out made by local rules, or stripes of several trees.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np

MIXED_UPLINKS = (10, 20, 50, 200, 1000)
"""Megabit per second; every host draws one."""
PER_CHILD = 10.0
"""Megabit per second of an uplink for each child, where uplinks are mixed."""
_MOST_CHILDREN = 8
PIECES = 64


@dataclass(slots=True)
class Tree:
    """Children of each node, and the nodes that found no parent."""

    root: int
    children: list[list[int]]
    left_over: int = 0
    asks: int = 0


class Case(NamedTuple):
    """A size in bytes, and what each host can send in bytes a second."""

    size: int
    uplinks: Any
    fan_out: Callable[[int], int]


def case(size: int, uplink: float, nodes: int, seed: int) -> Case:
    """All uplinks `uplink` Mbit/s, or mixed ones where that is 0."""
    if uplink:
        return Case(size, np.full(nodes, uplink * 125e3), lambda _: 2)
    megabits = np.random.default_rng(seed).choice(MIXED_UPLINKS, nodes)
    fan_out = np.clip(megabits / PER_CHILD, 1, _MOST_CHILDREN).astype(int)
    return Case(size, megabits * 125e3, lambda node: int(fan_out[node]))


def shortest_path_tree(parents: Any, distances: Any, root: int) -> Tree:
    """The tree of `root`; nearer children are sent to first."""
    children: list[list[int]] = [[] for _ in parents[root]]
    for node in np.argsort(distances[root]):
        if parents[root][node] >= 0:
            children[parents[root][node]].append(int(node))
    return Tree(root, children)


def bounded_tree(delays: Any, root: int, room: Callable[[int], int]) -> Tree:
    """A node asks the neighbours that have a parent in the order in which their word arrives; one
    that has `room` for no more children refuses, and its children are asked next. A node with no
    room at all makes way for one that has some."""
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
                tree.asks += 1
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
            kept = tree.children[to]
            leaf = next((child for child in kept if not room(child)), None)
            if len(kept) >= room(to) > 0 and room(by) and leaf is not None:
                kept.remove(leaf)
                send(now, "left", leaf, to)
            if len(kept) < room(to):
                kept.append(by)
                send(now, "accepted", by, to)
            else:
                send(now, "refused", by, to)
        elif kind == "left":
            parent.pop(to, None)
            busy[to] = False
            ask(now, to)
        elif kind == "accepted":
            parent[to] = by
            for other in neighbors[to] if room(to) else ():
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


def arrivals(delays: Any, trees: list[Tree], case: Case, pieces: int = PIECES) -> Any:
    """Seconds until each node has everything; each of `trees` carries its share of the pieces."""
    total = len(delays)
    complete = np.zeros(total)
    root = trees[0].root
    seconds = case.size / pieces / case.uplinks
    departures: list[dict[int, list[float]]] = [
        {child: [] for child in tree.children[root]} for tree in trees
    ]
    free = 0.0
    for piece in range(pieces):
        stripe = piece % len(trees)
        for child in trees[stripe].children[root]:
            free += seconds[root]
            departures[stripe][child].append(free)
    for tree, leaving in zip(trees, departures, strict=True):
        times: dict[int, Any] = {
            child: np.array(sent) + delays[root, child] for child, sent in leaving.items()
        }
        done = np.full(total, np.inf)
        queue = list(times)
        for node in queue:
            here = times.pop(node)
            done[node] = here[-1]
            free, children = 0.0, tree.children[node]
            sent = np.zeros((len(children), len(here)))
            for index, at in enumerate(here):
                for child in range(len(children)):
                    free = max(free, at) + seconds[node]
                    sent[child, index] = free
            for child, leaves in zip(children, sent, strict=True):
                times[child] = leaves + delays[node, child]
                queue.append(child)
        complete = np.maximum(complete, done)
    complete[root] = 0.0
    return complete


def stripes(delays: Any, root: int, number: int, case: Case) -> list[Tree]:
    """`number` trees; each node but the root has children in one of them alone (SplitStream). In
    there it has as many as there are trees, so that every uplink carries one message."""

    def room(stripe: int) -> Callable[[int], int]:
        return lambda node: 1 if node == root else max(2, number) if node % number == stripe else 0

    return [bounded_tree(delays, root, room(stripe)) for stripe in range(number)]


def times(overlay: Any, sources: list[int], case: Case) -> dict[str, tuple[Any, int]]:
    """Seconds for each source (rows) and node, and nodes left over, by way of sending."""
    delays, distances = overlay.delays, overlay.distances
    found: dict[str, tuple[Any, int]] = {}

    def add(name: str, trees_of: Callable[[int], list[Tree]], pieces: int) -> None:
        rows, left = [], 0
        for source in sources:
            trees = trees_of(source)
            rows.append(arrivals(delays, trees, case, pieces))
            left += sum(tree.left_over for tree in trees)
        found[name] = (np.stack(rows), left)

    limit = [case.size / case.uplinks[source] + distances[source] for source in sources]
    found["limit: one copy, and the shortest way"] = (np.stack(limit), 0)

    def shortest(source: int) -> list[Tree]:
        return [shortest_path_tree(overlay.parents, distances, source)]

    add("whole, along the shortest-path tree", shortest, 1)
    add(f"{PIECES} pieces, along the same tree", shortest, PIECES)
    for most in (1, 2, 3, 4) if case.fan_out(0) == case.fan_out(1) == 2 else ():
        add(
            f"{PIECES} pieces, at most {most} children",
            lambda source, most=most: [bounded_tree(delays, source, lambda _: most)],  # type: ignore[misc]
            PIECES,
        )
    add(
        f"{PIECES} pieces, children by uplink",
        lambda source: [bounded_tree(delays, source, case.fan_out)],
        PIECES,
    )
    for number in (2, 4):
        add(
            f"{PIECES} pieces, {number} stripes",
            lambda source, number=number: stripes(delays, source, number, case),  # type: ignore[misc]
            PIECES,
        )
    return found
