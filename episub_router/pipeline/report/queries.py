"""What a report takes of the tables: few rows, however long a run is."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.report.comparison import mean_of
from episub_router.pipeline.report.model import Row

_ABOUT = ("router", "scenario", "seed", "software")


def ordered(rows: Iterable[Row], *keys: str) -> list[Row]:
    """`rows` by some columns; nulls last."""

    def order(row: Row) -> list[tuple[bool, Any]]:
        return [(row[key] is None, row[key]) for key in keys]

    return sorted(rows, key=order)


def about(details: Iterable[str], most: int) -> Row:
    """What the headers of a run say: where they differ, everything, up to `most` values."""
    headers = [json.loads(detail) for detail in set(details)]
    if not headers:
        return {}
    said = {
        name: ", ".join(sorted({str(one[name]) for one in headers
                                if one.get(name) is not None})[:most])
        for name in _ABOUT
    }  # fmt: skip
    simulated = any(one.get("simulated") for one in headers)
    return {name: text for name, text in said.items() if text} | {"simulated": simulated}


def summed(messages: Iterable[Row]) -> list[Row]:
    """What of the table `spread` follows from `messages`, a row for each topic; the quantiles of
    all latencies don't."""
    rows = ordered(messages, "topic", "published")
    return [_spread([*of_topic]) for _, of_topic in groupby(rows, itemgetter("topic"))]


def _spread(rows: Sequence[Row]) -> Row:
    sums = ("live", "delivered", "deliveries", "unknown_latencies", "payloads")
    means = ("reliability", "rmr", "ldh", "mean_hops", "stability", "t99")
    total = {name: sum(row[name] for row in rows) for name in sums}
    got = total["deliveries"]
    reached = [row["reliability"] for row in rows]
    return total | {name: mean_of([row[name] for row in rows]) for name in means} | {
        "topic": rows[0]["topic"], "messages": len(rows), "worst_reliability": min(reached),
        "atomicity": fmean(share == 1 for share in reached), "rmr_last": rows[-1]["rmr"],
        "latency_p50": None, "latency_p99": None,
        "latency_max": max((row["latency_max"] or 0 for row in rows), default=None),
        "fan_out_max": max(row["fan_out_max"] for row in rows),
        "duplicates_per_delivery": (total["payloads"] - got) / got if got else 0.0,
    }  # fmt: skip


def of_stream(messages: Iterable[Row]) -> Row:
    """The table `quality`, as far as what a stream has answered tells it."""
    begin = min((row["published"] for row in messages), default=0)
    return {"begin": begin, "deadline": AnswerParams().deadline, "served": 0, "streamed": True}


def caused(causes: pa.Table) -> dict[str, tuple[int, int]]:
    """How many pairs were late and lost for which cause."""
    counts = [("latency", "count"), ("latency", "count", pc.CountOptions("only_null"))]
    counted = causes.group_by(["cause"]).aggregate(counts)
    rows = counted.rename_columns(["cause", "late", "lost"]).sort_by("cause").to_pylist()
    return {row["cause"]: (row["late"], row["lost"]) for row in rows}


def of_traits(groups: Iterable[Row], most: int) -> list[Row]:
    """Of each trait in the table `groups` the `most` largest."""
    rows = sorted(groups, key=lambda row: (row["trait"], -row["peers"], row["value"]))
    largest = [row for _, of_one in groupby(rows, itemgetter("trait")) for row in [*of_one][:most]]
    return ordered(largest, "trait", "value")


def most_frequent(losses: Iterable[Row], most: int) -> list[Row]:
    """Over all topics, the `most` frequent reasons."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in ordered(losses, "kind", "reason"):
        counts[row["kind"], row["reason"]] += row["count"]
    return [
        {"kind": kind, "reason": reason, "count": count}
        for (kind, reason), count in counts.most_common(most)
    ]


def largest(
    faults: Iterable[Row], most: int, by: Sequence[str] = ("nodes",), at: str = "time"
) -> list[Row]:
    """Those that took the most nodes, or the most of what `by` counts, in the order of time."""
    chosen = sorted(faults, key=lambda row: (-sum(row[name] for name in by), row[at]))[:most]
    return ordered(chosen, at)


COST = ("late", "lost"), "begin"
"""What a row of the table `faults` cost, and its time."""


def thinned(cdf: Iterable[Row], points: int) -> list[Row]:
    """The last row of each of `points` equal steps of the distribution of a topic."""
    rows = ordered(cdf, "millisecond")
    return [*{math.ceil(row["share"] * points): row for row in rows}.values()]


def looks(overlay: Iterable[Row], points: int) -> list[Row]:
    """At most `points` looks at each kind of link at equal distances, the last one among them."""
    chosen: list[Row] = []
    for _, of_kind in groupby(ordered(overlay, "kind", "time"), itemgetter("kind")):
        rows = [*of_kind]
        chosen += rows[:: -math.ceil(len(rows) / points)][::-1]
    return chosen


def averaged(messages: Iterable[Row], points: int) -> list[Row]:
    """At most `points` rows of a topic, each a message or some consecutive ones."""
    rows = ordered(messages, "index")
    count, made = len(rows), list[Row]()
    for _, of_one in groupby(rows, lambda row: row["index"] * min(count, points) // count):
        some = [*of_one]
        known = [row["latency_p99"] for row in some if row["latency_p99"] is not None]
        made.append(
            {name: min(one[name] for one in some) for name in ("index", "published", "reliability")}
            | {name: fmean(one[name] for one in some) for name in ("rmr", "ldh", "duplicates")}
            | {"latency_p99": max(known, default=None)}
        )
    return made


def ranked(load: Iterable[Row], points: int) -> list[tuple[float, int, int | None]]:
    """Of some `points` peers at most that have a trace, from the one that sends most down: the
    share of the peers that send more, messages and bytes sent."""
    rows = [row for row in load
            if row["sent_rpcs"] + row["received_rpcs"] + row["deliveries"]]  # fmt: skip
    rows.sort(key=lambda row: (-row["sent_messages"], row["peer"]))
    step, last = math.ceil(len(rows) / points), len(rows) - 1
    return [
        (rank / len(rows), row["sent_messages"], row["sent_bytes"])
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
