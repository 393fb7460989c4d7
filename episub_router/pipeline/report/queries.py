"""What a report takes of the tables: few rows for any number of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.report.model import Row

ABOUT = ("router", "scenario", "seed", "software")

MESSAGE = ("index", "published", "reliability", "rmr", "ldh", "duplicates", "latency_p99")


def by(rows: Iterable[Row], *keys: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """The rows of each key, in its order; nulls last."""

    def key(row: Row) -> list[tuple[bool, Any]]:
        return [(row[name] is None, row[name]) for name in keys]

    for found, of_key in groupby(sorted(rows, key=key), key):
        yield tuple(value for _, value in found), list(of_key)


def first(rows: Iterable[Row], order: Callable[[Row], Any], count: int, *keys: str) -> list[Row]:
    """The first `count` rows of each key in `order`."""
    return [row for _, of_key in by(rows, *keys) for row in sorted(of_key, key=order)[:count]]


def abouts(details: Iterable[str], most: int) -> list[Row]:
    """What the headers of a run say, each combination once, and `most` of them at most."""
    said = [json.loads(detail) for detail in details]
    rows = [
        {name: None if (value := one.get(name)) is None else str(value) for name in ABOUT}
        | {"simulated": bool(one.get("simulated"))}
        for one in said
    ]
    return [of_one[0] for _, of_one in by(rows, *ABOUT, "simulated")][:most]


def most_frequent(losses: Iterable[Row], most: int) -> list[Row]:
    """Over all topics, the `most` frequent reasons."""
    summed = [
        {"kind": kind, "reason": reason, "count": sum(row["count"] for row in rows)}
        for (kind, reason), rows in by(losses, "kind", "reason")
    ]
    return sorted(summed, key=lambda row: -row["count"])[:most]


def largest(faults: Iterable[Row], most: int) -> list[Row]:
    """Those that took the most nodes."""
    return first(faults, lambda row: (-row["nodes"], row["time"]), most, "topic")


def thinned(cdf: Iterable[Row], points: int) -> list[Row]:
    """The last row of each of `points` equal steps of the distribution."""
    chosen: list[Row] = []
    for _, rows in by(cdf, "topic"):
        rows.sort(key=lambda row: int(row["millisecond"]))
        of_step = {math.ceil(row["share"] * points): row for row in rows}
        chosen += of_step.values()
    return chosen


def looks(overlay: Iterable[Row], points: int) -> list[Row]:
    """At most `points` looks at each overlay at equal distances, the last one among them."""
    chosen: list[Row] = []
    for _, rows in by(overlay, "topic", "kind"):
        rows.sort(key=lambda row: int(row["time"]))
        chosen += rows[:: -math.ceil(len(rows) / points)]
    return chosen


def averaged(messages: Iterable[Row], points: int) -> list[Row]:
    """At most `points` rows per topic, each a message or some consecutive ones."""
    made = []
    for _, rows in by(messages, "topic"):
        count = len(rows)
        for row in rows:
            row["bucket"] = row["index"] * min(count, points) // count
        for _, some in by(rows, "bucket"):
            known = [row["latency_p99"] for row in some if row["latency_p99"] is not None]
            row = {"topic": some[0]["topic"], "latency_p99": max(known, default=None)}
            for name in ("index", "published", "reliability"):
                row[name] = min(one[name] for one in some)
            for name in ("rmr", "ldh", "duplicates"):
                row[name] = fmean(one[name] for one in some)
            made.append(row)
    return made


def ranked(load: Iterable[Row], points: int) -> list[Row]:
    """At most some `points` peers that have a trace, from the one that sends most down."""
    rows = [row for row in load
            if row["sent_rpcs"] + row["received_rpcs"] + row["deliveries"]]  # fmt: skip
    rows.sort(key=lambda row: (-row["sent_messages"], row["peer"]))
    step, last = math.ceil(len(rows) / points), len(rows) - 1
    return [
        {name: row[name] for name in ("sent_messages", "sent_bytes")} | {"share": rank / len(rows)}
        for rank, row in enumerate(rows)
        if rank % step == 0 or rank == last
    ]


RAW = {
    GOLD: ("spread", "messages", "latency_cdf", "missing", "duplicate_causes", "control_traffic",
           "load", "balance", "loss_reasons", "overlay", "recovery", "causes", "faults", "rest",
           "groups", "peers", "quality", "sds_channels"),
    SILVER: ("clocks",),
}  # fmt: skip
"""Tables that a report is made of, but for those with a row for each message and peer."""


def raw_rows(lake: Lake, runs: Sequence[str]) -> Iterator[str]:
    """A line for each row: `table`, and the table's columns."""
    for layer, names in RAW.items():
        for name in names:
            for batch in lake.look(layer, name, runs).to_batches():
                for row in batch.to_pylist():
                    yield json.dumps({"table": name, **row}) + "\n"
