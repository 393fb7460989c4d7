"""How far the trace itself is to be trusted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.answers.beside import beside
from episub_router.pipeline.facts.clocks import SET
from episub_router.pipeline.params import AnswerParams

_BOOK = ("header", "report")
"""The tracer's own events."""
_BOOKS = "dropped bigint, failed bigint"

_ZERO = (
    "events", "late", "unknown_events", "peers", "quarantined", "outliers", "untraced_peers",
    "dropped_by_tracer", "failed_by_tracer", "messages", "inferred_publishes", "deliveries",
    "served", "negative_latencies", "unknown_latencies", "clocks_set",
    "negative_before_correction", "repeated_deliveries", "without_depth", "clocks",
    "clocks_corrected", "clocks_unknown", "silent_peers",
)  # fmt: skip
"""What there is none of where nothing is said about it."""


def quality(
    records: DataFrame,
    contacts: DataFrame,
    publishes: DataFrame,
    deliveries: DataFrame,
    clocks: DataFrame,
    subscriptions: DataFrame,
    spans: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """The table `quality`: one row per run. Of `records`, bronze, it takes what is no event, or one
    of the tracer's own."""
    is_event = F.col("status") == "event"
    counted = contacts.groupBy("run").agg(
        F.sum("count").alias("events"),
        F.sum("late").alias("late"),
        F.sum("unknown").alias("unknown_events"),
        F.count_distinct(F.when(F.col("count") > 0, F.col("peer"))).alias("peers"),
    )
    # A tracer's books are totals over all its files: the last of each node counts.
    said = F.from_json(F.when(is_event, F.col("detail")), _BOOKS)
    # Apart, since each is found without a look at the events.
    unread, books = records.where(~is_event), records.where(is_event & F.col("event").isin(*_BOOK))
    others = (
        unread.unionByName(books)
        .groupBy("run", "peer")
        .agg(
            F.count_if(F.col("status") == "quarantined").alias("quarantined"),
            F.count_if(is_event).alias("books"),
            F.max(said["dropped"]).alias("dropped_by_tracer"),
            F.max(said["failed"]).alias("failed_by_tracer"),
        )
        .groupBy("run")
        .agg(*(F.sum(name).alias(name) for name in
               ("quarantined", "books", "dropped_by_tracer", "failed_by_tracer")))
    )  # fmt: skip
    both = F.array(
        F.struct("peer", F.lit(True).alias("traced")),
        F.struct(F.col("remote").alias("peer"), F.lit(False).alias("traced")),
    )
    untraced = (
        contacts.select("run", F.inline(both))
        .where(F.col("peer").isNotNull())
        .groupBy("run", "peer")
        .agg(F.max("traced").alias("traced"))
        .groupBy("run")
        .agg(F.count_if(~F.col("traced")).alias("untraced_peers"))
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
    table = beside(("run",), counted, others, spans, untraced, spread, published, clocked, there)
    table = table.fillna(0, [*_ZERO, "books"])
    table = table.withColumn("events", F.col("events") + F.col("books")).drop("books")
    return table.withColumn("deadline", F.lit(params.deadline))
