"""How completely, how redundantly and how fast messages spread, and along which paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

LATENCY_QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}


def reliability(delivered: int, live: int) -> float:
    """Share of the live nodes that delivered: delivered / live (Plumtree, section 4).

    A node is live for a message if it had joined when the message was published and stayed
    for the time that messages are given; the source counts. 1.0 where there are none.
    """
    return delivered / live if live else 1.0


def rmr(payloads: float, receivers: int) -> float:
    """Relative message redundancy: m / (n - 1) - 1 (Plumtree, section 4).

    m is the payload transmissions, answers to GRAFT or IWANT included; n is the nodes that
    have the message, its source included. 0 is a tree; a flood over a d-regular graph has
    d - 2. Comparable only at equal reliability. 0.0 where no other node received it.
    """
    return payloads / (receivers - 1) - 1 if receivers > 1 else 0.0


def last_delivery_hop(hops: Iterable[int]) -> int:
    """LDH: the most hops that any delivery took (Plumtree, section 4)."""
    return max(hops, default=0)


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


def duplicates_per_delivery(payloads: float, deliveries: int) -> float:
    """(m - deliveries) / deliveries: payload copies that brought nothing new.

    Deliveries at the source don't count. Copies still under way, or lost, count as sent.
    """
    return (payloads - deliveries) / deliveries if deliveries else 0.0


def latency_summary(latencies: NDArray[np.float64]) -> dict[str, float]:
    """Mean, p50, p90, p99 and max, in seconds from publishing to delivery.

    Deliveries at the source don't count. Quantiles are those values that at least this share
    of the deliveries doesn't exceed. Empty where nothing was delivered.
    """
    if not len(latencies):
        return {}
    ordered = np.sort(latencies)
    summary = {"mean": float(ordered.mean())}
    for name, share in LATENCY_QUANTILES.items():
        summary[name] = float(
            ordered[min(len(ordered) - 1, int(np.ceil(share * len(ordered))) - 1)]
        )
    summary["max"] = float(ordered[-1])
    return summary


def latency_histogram(latencies: NDArray[np.float64]) -> list[int]:
    """Deliveries per millisecond of latency, from 0 on."""
    if not len(latencies):
        return []
    return np.bincount((latencies * 1000).astype(np.int64)).tolist()  # type: ignore[no-any-return]


def time_to_repair(
    fault: float, published: Sequence[float], reliabilities: Sequence[float], target: float
) -> float | None:
    """Seconds from `fault` to the first message since which all reached `target` reliability.

    Its resolution is the interval between messages. None where the last message missed it.
    """
    repaired = None
    for time, reached in zip(published, reliabilities, strict=True):
        if time < fault:
            continue
        if reached < target:
            repaired = None
        elif repaired is None:
            repaired = time - fault
    return repaired
