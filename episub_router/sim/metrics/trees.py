"""The paths that messages took, from the peer that each node got them from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def fan_out(parents: Iterable[int]) -> dict[str, float]:
    """Children per node in one message's tree: the most, and the share of leaves.

    `parents` has the sender of each first copy; the source itself isn't in it.
    """
    children = Counter(parents)
    receivers = sum(children.values())
    if not receivers:
        return {"max": 0.0, "leaves": 0.0}
    inner = len(children)
    return {
        "max": float(max(children.values())),
        "leaves": max(0.0, (receivers + 1 - inner) / (receivers + 1)),
    }


def mean_depth(hops: Sequence[int]) -> float:
    """Mean hops from the source over all deliveries but its own."""
    return sum(hops) / len(hops) if hops else 0.0
