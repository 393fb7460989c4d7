"""Messages: their publishers, their receivers with time and sender, and copies in vain."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.facts.clocks import SET

MAX_HOPS = 2**31 - 1


def publishes(events: DataFrame) -> DataFrame:
    """One row per message: run, topic, message, source, time, size (bytes), inferred, correction
    (ns taken off the publisher's clock).

    Where no trace has the publishing, the earliest delivery stands for it, `inferred` is true,
    and latencies are too short by what that one took.
    """
    seen = events.where(F.col("event").isin("publish", "deliver"))
    facts = F.struct("time", "peer", "topic", "size", "correction")
    found = seen.groupBy("run", "message").agg(
        F.min(F.when(F.col("event") == "publish", facts)).alias("published"),
        F.min(F.when(F.col("event") == "deliver", facts)).alias("delivered"),
    )
    first = F.coalesce("published", "delivered")
    return found.select(
        "run",
        first["topic"].alias("topic"),
        "message",
        first["peer"].alias("source"),
        first["time"].alias("time"),
        F.coalesce(F.col("published.size"), F.col("delivered.size")).alias("size"),
        F.col("published").isNull().alias("inferred"),
        first["correction"].alias("correction"),
    )


def is_copy() -> Column:
    """Whether an event is a copy in vain."""
    return F.col("event") == "duplicate"


def is_in_a_chain() -> Column:
    """Whether an event is a delivery whose depth isn't traced, but the peer that it came from."""
    from_another = F.col("remote").isNotNull() & (F.col("remote") != F.col("peer"))
    return (F.col("event") == "deliver") & F.col("hops").isNull() & from_another


def deliveries(
    events: DataFrame,
    publishes: DataFrame,
    clocks: DataFrame,
    starts: DataFrame,
    chains: int | None = None,
) -> DataFrame:
    """One row per message and peer that got it: run, topic, message, peer, parent, time, latency
    (ns, negative where clocks disagree; null where the peer's clock or the publisher's was set
    during the run, since nobody knows when), raw_latency (before clocks were corrected), hops,
    origin (the publisher itself), size, repeats.

    It is the first receipt that counts; `repeats` are further deliveries to the application, but
    for the first to that of a process that started since (`starts`). Hops
    are the traced ones, or the depth in the tree that the parents make. `chains` is how many
    events `is_in_a_chain`, if that is known.
    """
    # The least of rows with strings is found by sorting: by a number first, which is quick.
    receipts = (
        events.where(F.col("event") == "deliver")
        .groupBy(F.xxhash64("message", "peer"), "run", "message", "peer")
        .agg(
            F.min(F.struct("time", "offset", "remote", "hops", "size", "correction")).alias(
                "first"
            ),
            (F.count("*") - 1).alias("repeats"),
            F.max("time").alias("last"),
        )
        .select("run", "message", "peer", "first.*", "repeats", "last")
    )
    began = starts.groupBy("run", "peer").agg(F.collect_list("time").alias("starts"))
    receipts = receipts.join(F.broadcast(began), ["run", "peer"], "left")
    between = F.filter("starts", lambda at: (at > F.col("time")) & (at <= F.col("last")))
    anew = F.least(F.col("repeats"), F.when(F.col("starts").isNull(), 0).otherwise(F.size(between)))
    receipts = receipts.withColumn("repeats", F.col("repeats") - anew).drop("last", "starts")
    sources = publishes.select(
        "run", "message", "topic", "source", F.col("time").alias("published"),
        F.col("correction").alias("source_correction"),
    )  # fmt: skip
    origin = (F.col("peer") == F.col("source")) & (
        F.col("remote").isNull() | (F.col("remote") == F.col("peer"))
    )
    was_set = clocks.where(F.col("note") == SET).select("run", "peer", F.lit(True).alias("was_set"))
    sources = sources.join(
        F.broadcast(was_set.toDF("run", "source", "source_was_set")), ["run", "source"], "left"
    )
    receipts = receipts.join(F.broadcast(was_set), ["run", "peer"], "left")
    known = F.col("was_set").isNull() & F.col("source_was_set").isNull()
    latency = F.when(known | origin, F.col("time") - F.col("published"))
    table = receipts.join(sources, ["run", "message"]).select(
        "run",
        "topic",
        "message",
        "peer",
        F.when(~origin & (F.col("remote") != F.col("peer")), F.col("remote")).alias("parent"),
        "time",
        latency.alias("latency"),
        (latency + F.col("correction") - F.col("source_correction")).alias("raw_latency"),
        F.when(origin, 0).otherwise(F.col("hops")).cast("int").alias("hops"),
        origin.alias("origin"),
        "size",
        "repeats",
    )
    # Most traces have all hops or none, and Python is slow.
    if chains == 0 or (chains is None and events.where(is_in_a_chain()).isEmpty()):
        return table
    return grouped(table, ["run", "message"], with_depths, _with_hops(table.schema))


def _with_hops(schema: StructType) -> StructType:
    return StructType(
        [
            StructField("hops", IntegerType(), True) if field.name == "hops" else field
            for field in schema
        ]
    )


def with_depths(tree: pd.DataFrame) -> pd.DataFrame:
    """The deliveries of one message with `hops` where it was missing: links up to the publisher
    over `parent`, missing still where that chain leads nowhere.

    Each round doubles the length of the chains that are known (pointer jumping), so that a tree
    of depth d takes log2(d) rounds.
    """
    hops = tree["hops"]
    if not hops.isna().any():
        return tree
    size = len(tree)
    place = {peer: row for row, peer in enumerate(tree["peer"])}
    known = hops.notna().to_numpy()
    # A peer whose depth is known ends the chain, and so does one whose parent isn't here.
    parent = np.array([place.get(name, row) for row, name in enumerate(tree["parent"])])
    parent[known] = np.flatnonzero(known)
    distance = np.where(parent == np.arange(size), 0, 1)
    for _ in range(size.bit_length()):
        distance = distance + distance[parent]
        parent = parent[parent]
    ends_well = known[parent]
    base = hops.fillna(0).to_numpy(dtype=np.int64)
    # What a damaged event has may be the most that there is already.
    depth = pd.array(np.minimum(base[parent] + distance, MAX_HOPS), dtype="Int32")
    depth[~ends_well] = pd.NA
    return tree.assign(hops=depth)


def duplicates(events: DataFrame, deliveries: DataFrame, control: DataFrame) -> DataFrame:
    """One row per copy that brought nothing new: run, topic, message, peer, remote, time, gap (ns
    since the delivery; null where that wasn't traced), cause, hops, size.

    `cause` is `request` where the peer had asked that remote for the message (IWANT, or a GRAFT
    with its id), else `push`.
    """
    asked = (
        control.where((F.col("direction") == "send") & F.col("asked").isNotNull())
        .select("run", "peer", "remote", F.explode("asked").alias("message"))
        .distinct()
        .withColumn("asked", F.lit(True))
    )
    copies = events.where(is_copy()).select(
        "run", "topic", "message", "peer", "remote", "time", "hops", "size"
    )
    first = deliveries.select("run", "message", "peer", F.col("time").alias("delivered"))
    return (
        copies.join(first, ["run", "message", "peer"], "left")
        .join(asked, ["run", "peer", "remote", "message"], "left")
        .select(
            "run",
            "topic",
            "message",
            "peer",
            "remote",
            "time",
            (F.col("time") - F.col("delivered")).alias("gap"),
            F.when(F.col("asked"), "request").otherwise("push").alias("cause"),
            "hops",
            "size",
        )
    )
