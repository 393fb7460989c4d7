"""What a report asks of the tables: few rows for any number of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.load import is_traced
from episub_router.pipeline.lake import GOLD, SILVER, Lake

ABOUT = ("router", "scenario", "seed", "software")

MESSAGE = ("index", "published", "reliability", "rmr", "ldh", "duplicates", "latency_p99")


def together(tables: Mapping[str, DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """The rows of all of `tables`, by one query."""
    (first, *others) = (
        table.select(
            F.lit(name).alias("name"),
            F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row"),
        )
        for name, table in tables.items()
    )
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in tables}
    columns = {name: table.columns for name, table in tables.items()}
    for name, row in reduce(DataFrame.unionAll, others, first).collect():
        # Sail leaves out nulls, whatever is said.
        found[name].append(dict.fromkeys(columns[name]) | json.loads(row))
    return found


def abouts(headers: DataFrame, most: int) -> DataFrame:
    """What the headers of each run say, each combination once, and `most` of them at most."""
    fields = ", ".join(f"{name} string" for name in ABOUT)
    described = headers.select(
        "run", F.from_json("detail", f"{fields}, simulated boolean").alias("it")
    )
    distinct = described.select("run", "it.*").distinct()
    return first(distinct, [F.col(name) for name in ABOUT], most)


def most_frequent(losses: DataFrame, most: int) -> DataFrame:
    """Over all topics, the `most` frequent reasons."""
    summed = (
        losses.where("window IS NULL")
        .groupBy("run", "kind", "reason")
        .agg(F.sum("count").alias("count"))
    )
    return first(summed, [F.col("count").desc(), F.col("kind"), F.col("reason")], most)


def largest(faults: DataFrame, most: int) -> DataFrame:
    """Those that took the most nodes."""
    return first(faults, [F.col("nodes").desc(), F.col("time")], most, "topic")


def mended(faults: DataFrame) -> DataFrame:
    """The longest repair, and how many faults weren't repaired."""
    return faults.groupBy("run", "topic").agg(
        F.max("repaired_after").alias("repaired_after"),
        F.count_if(F.col("repaired_after").isNull()).alias("unrepaired"),
    )


def first(table: DataFrame, order: Sequence[Column], count: int, *key: str) -> DataFrame:
    """The first `count` rows of each run and `key` in `order`."""
    place = F.row_number().over(Window.partitionBy("run", *key).orderBy(*order))
    return table.withColumn("place", place).where(F.col("place") <= count).drop("place")


def thinned(cdf: DataFrame, points: int) -> DataFrame:
    """The last row of each of `points` equal steps of the distribution."""
    step = F.ceil(F.col("share") * points)
    following = Window.partitionBy("run", "topic").orderBy("millisecond")
    table = cdf.select("run", "topic", "millisecond", "share", step.alias("step"))
    after = F.lead("step").over(following)
    is_last = F.col("after").isNull() | (F.col("after") > F.col("step"))
    return table.withColumn("after", after).where(is_last).drop("after", "step")


def looks(overlay: DataFrame, points: int) -> DataFrame:
    """At most `points` looks at each overlay at equal distances, the last one among them."""
    of_one = Window.partitionBy("run", "topic", "kind")
    step = F.ceil(F.count("*").over(of_one) / points)
    back = F.row_number().over(of_one.orderBy(F.col("time").desc())) - 1
    table = overlay.withColumn("step", step).withColumn("back", back)
    return table.where(F.col("back") % F.col("step") == 0).drop("step", "back")


def caused(causes: DataFrame) -> DataFrame:
    """How many pairs of each topic were late and lost for which cause."""
    return causes.groupBy("run", "topic", "cause").agg(
        F.count("latency").alias("late"), F.count_if(F.col("latency").isNull()).alias("lost")
    )


def averaged(messages: DataFrame, points: int) -> DataFrame:
    """At most `points` rows per topic, each a message or some consecutive ones."""
    count = F.count("*").over(Window.partitionBy("run", "topic"))
    bucket = F.floor(F.col("index") * F.least(count, F.lit(points)) / count)
    return (
        messages.select("run", "topic", *MESSAGE, bucket.alias("bucket"))
        .groupBy("run", "topic", "bucket")
        .agg(
            *(F.min(name).alias(name) for name in ("index", "published", "reliability")),
            *(F.avg(name).alias(name) for name in ("rmr", "ldh", "duplicates")),
            F.max("latency_p99").alias("latency_p99"),
        )
        .drop("bucket")
    )


def ranked(load: DataFrame, points: int) -> DataFrame:
    """At most some `points` peers that have a trace, from the one that sends most down."""
    of_run = Window.partitionBy("run")
    rank = F.row_number().over(of_run.orderBy(F.col("sent_messages").desc(), "peer")) - 1
    count = F.count("*").over(of_run)
    table = load.where(is_traced()).select(
        "run", "sent_messages", "sent_bytes", rank.alias("rank"), count.alias("count")
    )
    step = F.ceil(F.col("count") / points)
    chosen = table.where((F.col("rank") % step == 0) | (F.col("rank") == F.col("count") - 1))
    return chosen.select(
        "run", "sent_messages", "sent_bytes", (F.col("rank") / F.col("count")).alias("share")
    )


RAW = (
    (GOLD, "spread"), (GOLD, "messages"), (GOLD, "latency_cdf"), (GOLD, "missing"),
    (GOLD, "duplicate_causes"), (GOLD, "control_traffic"), (GOLD, "load"), (GOLD, "balance"),
    (GOLD, "loss_reasons"), (GOLD, "overlay"), (GOLD, "recovery"), (GOLD, "causes"),
    (GOLD, "faults"), (GOLD, "rest"), (GOLD, "groups"), (GOLD, "quality"), (GOLD, "sds_channels"),
    (SILVER, "clocks"),
)  # fmt: skip
"""Tables that a report is made of, but for those with a row for each message and peer."""


def raw_rows(lake: Lake, runs: Sequence[str]) -> Iterator[str]:
    """A line for each row: `table`, and the table's columns."""
    tables = [
        lake.read(layer, name, runs).select(
            F.to_json(
                F.struct(F.lit(name).alias("table"), "*"), {"ignoreNullFields": "false"}
            ).alias("line")
        )
        for layer, name in RAW
    ]
    for row in reduce(DataFrame.unionAll, tables).toLocalIterator():
        yield f"{row.line}\n"
