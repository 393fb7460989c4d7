"""What distinguishes peers: software, protocols, and where they are."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def traits(records: DataFrame, changes: DataFrame) -> DataFrame:
    """One row per peer and trait that its run's traces tell: run, peer, trait, value. Of several
    values of a peer, such as the protocols of two streams, all, in order.

    `software` and the router beside it are those of the headers of the peer's trace, and so is its
    `region`; of a simulated node, that is in the event of its start. A `protocol` of a peer is one
    that others opened a stream to it with.
    """
    it = F.from_json("detail", "software string, router string, region string")
    headers = records.where((F.col("status") == "event") & (F.col("event") == "header"))
    said = headers.select("run", "peer", it.alias("it")).select(
        "run", "peer", F.concat_ws(", ", "it.software", "it.router").alias("software"), "it.region"
    )
    of_headers = _long(said, "software", "region")
    streams = changes.where(F.col("event") == "stream-up")
    spoken = streams.select("run", F.col("remote").alias("peer"), F.col("kind").alias("protocol"))
    starts = changes.where((F.col("event") == "node") & (F.col("state") == "start"))
    placed = starts.select("run", "peer", F.col("kind").alias("region"))
    rows = of_headers.unionByName(_long(spoken, "protocol")).unionByName(_long(placed, "region"))
    value = F.array_join(F.array_sort(F.collect_set("value")), ", ")
    return rows.groupBy("run", "peer", "trait").agg(value.alias("value"))


def _long(table: DataFrame, *names: str) -> DataFrame:
    """A row for each of the columns `names` that says anything."""
    said = F.array(*(F.struct(F.lit(n).alias("trait"), F.col(n).alias("value")) for n in names))
    return table.select("run", "peer", F.inline(said)).where("peer IS NOT NULL AND value <> ''")
