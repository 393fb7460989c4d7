"""Where the peers of a tree are drawn: in circles around its root."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean

from episub_router.pipeline.report.model import Drawing


def draw(
    message: str,
    root: str,
    parents: Mapping[str, str | None],
    links: Iterable[tuple[str, str]],
    kind: str | None,
    most: int,
    total: int = 0,
) -> Drawing:
    """The tree that `parents` (peer to parent, None where it isn't known) makes from `root`, with
    at most `most` peers, those nearest to the root. `links` are the overlay's. `total` is how many
    peers there are, where `parents` hasn't all of them."""
    below = _depths(root, parents)
    depths = below | dict.fromkeys(sorted(parents.keys() - below.keys()))
    chosen = sorted(depths, key=lambda peer: (depths[peer] is None, depths[peer], peer))[:most]
    number = {peer: place for place, peer in enumerate(chosen)}
    # In the tree's order; what isn't in it comes last.
    in_tree = [peer for peer in below if peer in number]
    tree = [(parents[peer], peer) for peer in in_tree if peer != root]
    angles = _angles(tree, [*in_tree, *(peer for peer in chosen if depths[peer] is None)])
    deepest = max(depths[peer] or 0 for peer in chosen)
    # Peers that aren't in the tree are drawn outside of it.
    rings = deepest + 1 if any(depths[peer] is None for peer in chosen) else max(deepest, 1)
    return Drawing(
        message=message,
        peers=chosen,
        depths=[depths[peer] for peer in chosen],
        places=[_place(depths[peer], rings, angles[peer]) for peer in chosen],
        tree=[(number[str(parent)], number[peer]) for parent, peer in tree],
        overlay=sorted({
            (min(number[a], number[b]), max(number[a], number[b]))
            for a, b in links if a in number and b in number and a != b
        }),
        kind=kind,
        left_out=max(total, len(depths)) - len(chosen),
    )  # fmt: skip


def _depths(root: str, parents: Mapping[str, str | None]) -> dict[str, int | None]:
    """Links from the root of each peer below it, a peer's children next to it."""
    children: defaultdict[str | None, list[str]] = defaultdict(list)
    for peer, parent in sorted(parents.items(), reverse=True):
        if peer != root:
            children[parent].append(peer)
    depths: dict[str, int | None] = {}
    stack = [(root, 0)]
    while stack:
        peer, depth = stack.pop()
        depths[peer] = depth
        stack += [(child, depth + 1) for child in children[peer]]
    return depths


def _angles(tree: list[tuple[str | None, str]], peers: list[str]) -> dict[str, float]:
    """Those of `peers` without children at equal distances in their order; a parent in the middle
    of its children, which come after it."""
    parent_of = {peer: parent for parent, peer in tree}
    inner = {*parent_of.values()}
    leaves = [peer for peer in peers if peer not in inner]
    angles = {peer: 2 * math.pi * place / len(leaves) for place, peer in enumerate(leaves)}
    of_children: defaultdict[str | None, list[float]] = defaultdict(list)
    for peer in reversed(peers):
        if peer in inner:
            angles[peer] = fmean(of_children[peer])
        of_children[parent_of.get(peer)].append(angles[peer])
    return angles


def _place(depth: int | None, rings: int, angle: float) -> tuple[float, float]:
    radius = (rings if depth is None else depth) / rings
    return round(radius * math.cos(angle), 4), round(radius * math.sin(angle), 4)
