"""Messages: their publishers, their receivers with time and sender, and copies in vain."""

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.facts.clocks import SET
from episub_router.pipeline.session import works_here
from episub_router.pipeline.sql import grouped_by

MAX_HOPS = 2**31 - 1


def publishes(events: DataFrame) -> DataFrame:
    """One row per message: run, topic, message, source, time, size (bytes), inferred, correction
    (ns taken off the publisher's clock).

    Where no trace has the publishing, the earliest delivery stands for it, `inferred` is true,
    and latencies are too short by what that one took.
    """
    found = grouped_by(
        events.where("event IN ('publish', 'deliver')"), ["run", "message"],
        published=f"min(CASE WHEN event = 'publish' THEN {_FACTS} END)",
        delivered=f"min(CASE WHEN event = 'deliver' THEN {_FACTS} END)",
    )  # fmt: skip
    first = found.withColumn("first", F.coalesce("published", "delivered"))
    return first.selectExpr(
        "run", "first.topic", "message", "first.peer AS source", "first.time",
        "coalesce(published.size, delivered.size) AS size", "published IS NULL AS inferred",
        "first.correction",
    )  # fmt: skip


_FACTS = "struct(time, peer, topic, size, correction)"


def deliveries(
    events: DataFrame,
    publishes: DataFrame,
    clocks: DataFrame,
    starts: DataFrame,
) -> DataFrame:
    """One row per message and peer that got it: run, topic, message, peer, parent, time, latency
    (ns, negative where clocks disagree; null where the peer's clock or the publisher's was set
    during the run, since nobody knows when), raw_latency (before clocks were corrected), hops,
    origin (the publisher itself), size, repeats.

    It is the first receipt that counts; `repeats` are further deliveries to the application, but
    for the first to that of a process that started since (`starts`). Hops
    are the traced ones, or the depth in the tree that the parents make.
    """
    # Sorted: engines are slow at the least of rows, where there are as many groups as rows nearly.
    receipt = Window.partitionBy("run", "message", "peer")
    receipts = events.where("event = 'deliver'").select(
        "run", "message", "peer", "time", "remote", "hops", "size", "correction",
        F.row_number().over(receipt.orderBy("time", "offset")).alias("rank"),
        (F.count("*").over(receipt) - 1).alias("repeats"),
        F.max("time").over(receipt).alias("last"),
    ).where("rank = 1")  # fmt: skip
    began = grouped_by(starts, ["run", "peer"], starts="collect_list(time)")
    between = "size(filter(starts, at -> at > time AND at <= last))"
    anew = f"CASE WHEN starts IS NULL THEN 0 ELSE {between} END"
    receipts = receipts.join(F.broadcast(began), ["run", "peer"], "left")
    receipts = receipts.withColumn("repeats", F.expr(f"repeats - least(repeats, {anew})"))
    was_set = clocks.where(F.col("note") == SET).select("run", "peer", F.lit(True).alias("was_set"))
    sources = publishes.selectExpr(
        "run", "message", "topic", "source", "time AS published", "correction AS source_correction"
    ).join(F.broadcast(was_set.toDF("run", "source", "source_set")), ["run", "source"], "left")
    origin = "peer = source AND (remote IS NULL OR remote = peer)"
    table = (
        receipts.join(F.broadcast(was_set), ["run", "peer"], "left")
        .join(sources, ["run", "message"])
        .withColumn("origin", F.expr(origin))
        .withColumn("latency", F.expr(
            "CASE WHEN origin OR was_set IS NULL AND source_set IS NULL THEN time - published END"
        ))
        .selectExpr(
            "run", "topic", "message", "peer",
            "CASE WHEN NOT origin AND remote != peer THEN remote END AS parent", "time", "latency",
            "latency + correction - source_correction AS raw_latency",
            "int(CASE WHEN origin THEN 0 ELSE hops END) AS hops", "origin", "size", "repeats",
        )
    )  # fmt: skip
    # Most traces have all hops or none, and Python is slow.
    in_a_chain = "event = 'deliver' AND hops IS NULL AND remote IS NOT NULL AND remote != peer"
    if events.where(in_a_chain).isEmpty():
        return table
    schema = StructType([
        StructField("hops", IntegerType(), True) if field.name == "hops" else field
        for field in table.schema
    ])  # fmt: skip
    if works_here(table.sparkSession):
        return grouped(table, ["run"], with_depths, schema)
    # A 64th of a run's messages at once: a call costs more than a message.
    parts = table.withColumn("part", F.pmod(F.xxhash64("message"), F.lit(64)))
    return grouped(
        parts, ["run", "part"], lambda trees: with_depths(trees.drop(columns="part")), schema
    )


def with_depths(trees: pd.DataFrame) -> pd.DataFrame:
    """The deliveries of some messages of a run with `hops` where it was missing: links up to the
    publisher over `parent`, missing still where that chain leads nowhere.

    Each round doubles the length of the chains that are known (pointer jumping), so that a tree
    of depth d takes log2(d) rounds.
    """
    hops = trees["hops"]
    if not hops.isna().any():
        return trees
    size = len(trees)
    known = hops.notna().to_numpy()
    message, _ = pd.factorize(trees["message"])
    peer, peers = pd.factorize(trees["peer"])
    of = pd.Index(peers).get_indexer(trees["parent"])
    at = pd.Index(message * len(peers) + peer)
    parent = np.where(of < 0, -1, at.get_indexer(message * len(peers) + of))
    # A peer whose depth is known ends the chain, and so does one whose parent isn't here.
    parent = np.where(known | (parent < 0), np.arange(size), parent)
    distance = np.where(parent == np.arange(size), 0, 1)
    for _ in range(size.bit_length()):
        distance = distance + distance[parent]
        parent = parent[parent]
    ends_well = known[parent]
    base = hops.fillna(0).to_numpy(dtype=np.int64)
    # What a damaged event has may be the most that there is already.
    depth = pd.array(np.minimum(base[parent] + distance, MAX_HOPS), dtype="Int32")
    depth[~ends_well] = pd.NA
    return trees.assign(hops=depth)


def duplicates(events: DataFrame, deliveries: DataFrame, control: DataFrame) -> DataFrame:
    """One row per copy that brought nothing new: run, topic, message, peer, remote, time, gap (ns
    since the delivery; null where that wasn't traced), cause, hops, size.

    `cause` is `request` where the peer had asked that remote for the message (IWANT, or a GRAFT
    with its id), else `push`.
    """
    asked = control.where("direction = 'send' AND asked IS NOT NULL").selectExpr(
        "run", "peer", "remote", "explode(asked) AS message"
    )
    first = deliveries.selectExpr("run", "message", "peer", "time AS delivered")
    return (
        events.where("event = 'duplicate'")
        .join(first, ["run", "message", "peer"], "left")
        .join(asked.distinct().withColumn("asked", F.lit(True)),
              ["run", "peer", "remote", "message"], "left")
        .selectExpr(
            "run", "topic", "message", "peer", "remote", "time", "time - delivered AS gap",
            "CASE WHEN asked THEN 'request' ELSE 'push' END AS cause", "hops", "size",
        )
    )  # fmt: skip
