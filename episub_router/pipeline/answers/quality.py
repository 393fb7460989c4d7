"""How far the trace itself is to be trusted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.facts.clocks import SET

_BOOKS = "dropped bigint, failed bigint"


def quality(
    records: DataFrame,
    contacts: DataFrame,
    publishes: DataFrame,
    deliveries: DataFrame,
    clocks: DataFrame,
    subscriptions: DataFrame,
    spans: DataFrame,
) -> DataFrame:
    """The table `quality`: one row per run. Of `records`, bronze, it takes what is no event, or one
    of the tracer's own."""
    is_event = F.col("status") == "event"
    is_book = F.col("event").isin("header", "report")
    counted = contacts.groupBy("run").agg(
        F.sum("count").alias("events"),
        F.sum("late").alias("late"),
        F.sum("unknown").alias("unknown_events"),
        F.count_distinct(F.when(F.col("count") > 0, F.col("peer"))).alias("peers"),
    )
    books = records.where(is_event & is_book)
    unread = (
        records.where(~is_event)
        .groupBy("run")
        .agg(F.count_if(F.col("status") == "quarantined").alias("quarantined"))
    )
    entries = books.groupBy("run").agg(F.count("*").alias("books"))
    kept = counted.join(unread, "run", "full").join(entries, "run", "left")
    kept = kept.fillna(0, ["events", "late", "unknown_events", "peers", "quarantined", "books"])
    kept = kept.withColumn("events", F.col("events") + F.col("books")).drop("books")
    traced = contacts.select("run", "peer").distinct()
    named = contacts.where(F.col("remote").isNotNull())
    named = named.select("run", F.col("remote").alias("peer"))
    untraced = named.distinct().join(traced, ["run", "peer"], "anti").groupBy("run")
    unknown = untraced.agg(F.count("*").alias("untraced_peers"))
    said = F.from_json("detail", _BOOKS)
    # A tracer's books are totals over all its files: the last of each node counts.
    lost = (
        books.groupBy("run", "peer")
        .agg(F.max(said["dropped"]).alias("dropped"), F.max(said["failed"]).alias("failed"))
        .groupBy("run")
        .agg(F.sum("dropped").alias("dropped_by_tracer"), F.sum("failed").alias("failed_by_tracer"))
    )
    spread = deliveries.groupBy("run").agg(
        F.count("*").alias("deliveries"),
        F.count_if(~F.col("origin")).alias("served"),
        F.count_if(F.col("latency") < 0).alias("negative_latencies"),
        F.count_if(F.col("latency").isNull()).alias("unknown_latencies"),
        F.min("latency").alias("least_latency"),
        F.count_if(F.col("raw_latency") < 0).alias("negative_before_correction"),
        F.sum("repeats").alias("repeated_deliveries"),
        F.count_if(F.col("hops").isNull()).alias("without_depth"),
    )
    published = publishes.groupBy("run").agg(
        F.count("*").alias("messages"), F.count_if("inferred").alias("inferred_publishes")
    )
    clocked = clocks.groupBy("run").agg(
        F.count("*").alias("clocks"),
        F.count_if(F.col("correction") != 0).alias("clocks_corrected"),
        F.count_if(F.col("offset").isNull()).alias("clocks_unknown"),
        F.count_if(F.col("note") == SET).alias("clocks_set"),
        F.max(F.abs("offset")).alias("largest_offset"),
        F.max("uncertainty").alias("largest_uncertainty"),
    )
    there = subscriptions.groupBy("run").agg(
        F.count_if(F.col("ending") == "silent").alias("silent_peers"),
        F.max("inferred").alias("subscriptions_inferred"),
    )
    table = kept
    for other in (spans, unknown, lost, published, spread, clocked, there):
        table = table.join(other, "run", "left")
    zero = [
        "outliers", "untraced_peers", "dropped_by_tracer", "failed_by_tracer", "messages",
        "inferred_publishes", "deliveries", "served", "negative_latencies", "unknown_latencies",
        "clocks_set", "negative_before_correction",
        "repeated_deliveries", "without_depth", "clocks", "clocks_corrected", "clocks_unknown",
        "silent_peers",
    ]  # fmt: skip
    return table.fillna(0, zero)
