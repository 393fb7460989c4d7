"""The six published gossipsub runs of 2018 (G02; specs/gossipsub-simulator.org)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

COUNTERS = ("deliver", "connect", "publish", "graft", "prune", "ihave", "iwant")
"""`publish` counts the sends, those of the publisher to its `fanout` nodes included."""

PUBLISHED: dict[str, tuple[int, ...]] = {
    "simsub-1": (1_000, 1_000, 6_473, 380, 7, 4_402, 31),
    "simsub-2": (10_000, 1_000, 63_351, 374, 8, 4_844, 163),
    "simsub-3": (100_000, 1_000, 646_973, 376, 0, 8_413, 1_037),
    "simsub-4": (10_000, 10_000, 61_957, 3_651, 15, 45_456, 155),
    "simsub-5": (100_000, 10_000, 621_559, 3_661, 21, 198_372, 1_146),
    "simsub-6": (100_000, 10_000, 653_634, 3_740, 53, 84_297, 20_749),
}
"""The counters of each run, in the order of `COUNTERS`."""


def counters(summary: Mapping[str, Any]) -> dict[str, float]:
    """What this run, or the mean of several, counts where the published one did."""
    traffic = summary["traffic"]
    counted = {kind: traffic.get(kind, {"sends": 0})["sends"] for kind in COUNTERS}
    counted["deliver"] = summary["phases"][0]["deliveries"]
    return counted


def same_size(summary: Mapping[str, Any]) -> bool:
    """Whether this is a run of one of these scenarios with as many nodes and messages."""
    published = PUBLISHED.get(summary["scenario"])
    if published is None:
        return False
    deliveries, connects = published[:2]
    messages = len(summary["messages"]["published"])
    # Each node connects to ten others.
    return bool(summary["nodes"] * 10 == connects and messages * summary["nodes"] == deliveries)


def comparison(summary: Mapping[str, Any]) -> Table:
    """A run of one of these scenarios beside the published figures."""
    table = Table(title=f"{summary['scenario']} as published in 2018", title_justify="left")
    for column in ("counter", "published", "here", "here / published"):
        table.add_column(column, justify="left" if column == "counter" else "right")
    here = counters(summary)
    for counter, there in zip(COUNTERS, PUBLISHED[summary["scenario"]], strict=True):
        ratio = f"{here[counter] / there:.3f}" if there else "-"
        table.add_row(counter, f"{there:,}", f"{here[counter]:,.1f}", ratio)
    return table
