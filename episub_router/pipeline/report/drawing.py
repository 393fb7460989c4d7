"""Where the peers of a tree are drawn: in circles around its root."""

import math
from collections.abc import Iterable, Mapping, Sequence

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
    depths, children = _tree(root, parents)
    chosen = sorted(depths, key=lambda peer: (_far(depths[peer]), peer))[:most]
    number = {peer: place for place, peer in enumerate(chosen)}
    angles = _angles(root, children, number)
    deepest = max(depths[peer] or 0 for peer in chosen)
    # Peers that aren't in the tree are drawn outside of it.
    rings = deepest + 1 if any(depths[peer] is None for peer in chosen) else max(deepest, 1)
    pairs = {
        (min(number[a], number[b]), max(number[a], number[b])): None
        for a, b in links
        if a in number and b in number and a != b
    }
    return Drawing(
        message=message,
        peers=chosen,
        depths=[depths[peer] for peer in chosen],
        places=[_place(depths[peer], rings, angles[peer]) for peer in chosen],
        tree=[
            (number[parent], number[child])
            for parent, of_one in children.items()
            for child in of_one
            if child in number
        ],
        overlay=sorted(pairs),
        kind=kind,
        left_out=max(total, len(depths)) - len(chosen),
    )


def _far(depth: int | None) -> float:
    return math.inf if depth is None else depth


def _tree(
    root: str, parents: Mapping[str, str | None]
) -> tuple[dict[str, int | None], dict[str, list[str]]]:
    """Links from the root, None for peers that aren't below it; and the children of each."""
    below: dict[str, list[str]] = {}
    for peer, parent in sorted(parents.items()):
        if parent is not None and peer != root:
            below.setdefault(parent, []).append(peer)
    depths: dict[str, int | None] = dict.fromkeys((root, *sorted(parents)))
    children: dict[str, list[str]] = {}
    level, depth = [root], 0
    while level:
        depths.update(dict.fromkeys(level, depth))
        children |= {peer: below[peer] for peer in level if peer in below}
        level = [child for peer in level for child in below.get(peer, ())]
        depth += 1
    return depths, children


def _angles(
    root: str, children: Mapping[str, Sequence[str]], number: Mapping[str, int]
) -> dict[str, float]:
    """Leaves, and peers that aren't in the tree, at equal distances in the tree's order; a parent
    in the middle of its children."""
    order: list[str] = []
    stack = [root]
    while stack:
        peer = stack.pop()
        order.append(peer)
        stack += [child for child in reversed(children.get(peer, ())) if child in number]
    inner = {peer for peer in order if any(child in number for child in children.get(peer, ()))}
    in_tree = set(order)
    leaves = [peer for peer in order if peer not in inner]
    leaves += [peer for peer in number if peer not in in_tree]
    angles = {peer: 2 * math.pi * place / len(leaves) for place, peer in enumerate(leaves)}
    for peer in reversed(order):
        if peer in inner:
            of_children = [angles[child] for child in children[peer] if child in number]
            angles[peer] = sum(of_children) / len(of_children)
    return angles


def _place(depth: int | None, rings: int, angle: float) -> tuple[float, float]:
    radius = (rings if depth is None else depth) / rings
    return round(radius * math.cos(angle), 4), round(radius * math.sin(angle), 4)
