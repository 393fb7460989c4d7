"""What a report asks of the tables: few rows for any number of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.load import IS_TRACED
from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.sql import grouped_by

ABOUT = ("router", "scenario", "seed", "software")

MESSAGE = ("index", "published", "reliability", "rmr", "ldh", "duplicates", "latency_p99")


def together(tables: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """The rows of all of `tables`, by one query."""
    (first, *others) = (
        table.select(F.lit(name).alias("name"), _as_json("row")) for name, table in tables.items()
    )
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    columns = {name: table.columns for name, table in tables.items()}
    for name, row in reduce(DataFrame.unionAll, others, first).collect():
        # Sail leaves out nulls, whatever is said.
        found[name].append(dict.fromkeys(columns[name]) | json.loads(row))
    return found


def abouts(headers: DataFrame, most: int) -> DataFrame:
    """What the headers of each run say, each combination once, and `most` of them at most."""
    fields = ", ".join(f"{name} string" for name in (*ABOUT, "simulated"))
    fields = fields.replace("simulated string", "simulated boolean")
    described = headers.select("run", F.from_json("detail", fields).alias("it"))
    distinct = described.select("run", "it.*").distinct()
    return first(distinct, [F.col(name) for name in ABOUT], most)


def most_frequent(losses: DataFrame, most: int) -> DataFrame:
    """Over all topics, the `most` frequent reasons."""
    of_run = losses.where("window IS NULL")
    summed = grouped_by(of_run, ["run", "kind", "reason"], count="sum(count)")
    return first(summed, [F.col("count").desc(), F.col("kind"), F.col("reason")], most)


def largest(faults: DataFrame, most: int) -> DataFrame:
    """Those that took the most nodes."""
    return first(faults, [F.col("nodes").desc(), F.col("time")], most, "topic")


def mended(faults: DataFrame) -> DataFrame:
    """The longest repair, and how many faults weren't repaired."""
    return grouped_by(
        faults, ["run", "topic"], repaired_after="max(repaired_after)",
        unrepaired="count_if(repaired_after IS NULL)",
    )  # fmt: skip


def first(table: DataFrame, order: Sequence[Column], count: int, *key: str) -> DataFrame:
    """The first `count` rows of each run and `key` in `order`."""
    place = F.row_number().over(Window.partitionBy("run", *key).orderBy(*order))
    return table.withColumn("place", place).where(F.col("place") <= count).drop("place")


def thinned(cdf: DataFrame, points: int) -> DataFrame:
    """The last row of each of `points` equal steps of the distribution."""
    table = cdf.withColumn("step", F.ceil(F.col("share") * points))
    following = Window.partitionBy("run", "topic").orderBy("millisecond")
    last = table.withColumn("after", F.lead("step").over(following))
    return last.where("after IS NULL OR after > step").select(
        "run", "topic", "millisecond", "share"
    )


def looks(overlay: DataFrame, points: int) -> DataFrame:
    """At most `points` looks at each overlay at equal distances, the last one among them."""
    of_one = Window.partitionBy("run", "topic", "kind")
    step = F.ceil(F.count("*").over(of_one) / points)
    back = F.row_number().over(of_one.orderBy(F.col("time").desc())) - 1
    table = overlay.withColumn("step", step).withColumn("back", back)
    return table.where(F.col("back") % F.col("step") == 0).drop("step", "back")


def caused(causes: DataFrame) -> DataFrame:
    """How many pairs of each topic were late and lost for which cause."""
    return grouped_by(
        causes, ["run", "topic", "cause"], late="count(latency)", lost="count_if(latency IS NULL)"
    )


def averaged(messages: DataFrame, points: int) -> DataFrame:
    """At most `points` rows per topic, each a message or some consecutive ones."""
    count = F.count("*").over(Window.partitionBy("run", "topic"))
    bucket = F.floor(F.col("index") * F.least(count, F.lit(points)) / count)
    table = messages.select("run", "topic", *MESSAGE, bucket.alias("bucket"))
    least = {name: f"min({name})" for name in ("index", "published", "reliability")}
    means = {name: f"avg({name})" for name in ("rmr", "ldh", "duplicates")}
    return grouped_by(
        table, ["run", "topic", "bucket"], **least, **means, latency_p99="max(latency_p99)"
    ).drop("bucket")


def ranked(load: DataFrame, points: int) -> DataFrame:
    """At most some `points` peers that have a trace, from the one that sends most down."""
    of_run = Window.partitionBy("run")
    rank = F.row_number().over(of_run.orderBy(F.col("sent_messages").desc(), "peer")) - 1
    table = load.where(IS_TRACED).withColumn("rank", rank)
    table = table.withColumn("count", F.count("*").over(of_run))
    chosen = table.where(f"rank % ceil(count / {points}) = 0 OR rank = count - 1")
    return chosen.selectExpr("run", "sent_messages", "sent_bytes", "rank / count AS share")


RAW = {
    GOLD: ("spread", "messages", "latency_cdf", "missing", "duplicate_causes", "control_traffic",
           "load", "balance", "loss_reasons", "overlay", "recovery", "causes", "faults", "rest",
           "groups", "quality", "sds_channels"),
    SILVER: ("clocks",),
}  # fmt: skip
"""Tables that a report is made of, but for those with a row for each message and peer."""


def raw_rows(lake: Lake, runs: Sequence[str]) -> Iterator[str]:
    """A line for each row: `table`, and the table's columns."""
    tables = (
        lake.read(layer, name, runs).select(F.lit(name).alias("table"), "*")
        for layer, names in RAW.items()
        for name in names
    )
    lines = (table.select(_as_json("line")) for table in tables)
    for row in reduce(DataFrame.unionAll, lines).toLocalIterator():
        yield f"{row.line}\n"


def _as_json(name: str) -> Column:
    return F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias(name)
