"""Which peer was to get which message, and whether it came."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams


def arrivals(
    publishes: DataFrame, deliveries: DataFrame, subscriptions: DataFrame, params: AnswerParams
) -> DataFrame:
    """One row per message and peer that was to get it: run, topic, message, peer, published,
    delivered, live, ending, latency, hops, parent, origin.

    A peer is to get a message if it was subscribed when that was published, and had been linked
    by then or subscribed for `patience`. The publisher has it whether or not its trace says so. Of
    the others, a peer that left or crashed within `patience` without it isn't `live`: nobody could
    have served it. The same rules as the simulator's (`sim.metrics.accounting`), so that both
    count the same.
    """
    patience = int(params.patience * SECOND)
    ready = F.least("linked", F.col("since") + patience)
    expected = F.when(F.col("inferred"), F.col("since")).otherwise(ready)
    peers = subscriptions.select("run", "topic", "peer", "until", "ending", expected.alias("ready"))
    messages = publishes.select(
        "run", "topic", "message", "source", F.col("time").alias("published")
    )
    pairs = peers.join(F.broadcast(messages), ["run", "topic"]).where(
        (F.col("ready") <= F.col("published"))
        & (F.col("until").isNull() | (F.col("published") < F.col("until")))
    )
    got = deliveries.select(
        "run", "message", "peer", "latency", "hops", "parent", "origin",
        F.lit(True).alias("delivered"),
    )  # fmt: skip
    is_source = F.col("peer") == F.col("source")
    delivered = F.col("delivered").isNotNull() | is_source
    zero = F.when(is_source, 0)
    stayed = F.col("until").isNull() | (F.col("until") > F.col("published") + patience)
    return pairs.join(got, ["run", "message", "peer"], "left").select(
        "run",
        "topic",
        "message",
        "peer",
        "published",
        delivered.alias("delivered"),
        (delivered | stayed).alias("live"),
        "ending",
        F.coalesce("latency", zero).alias("latency"),
        F.coalesce("hops", zero).alias("hops"),
        "parent",
        F.coalesce("origin", is_source).alias("origin"),
    )
