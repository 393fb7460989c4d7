"""What distinguishes peers: software, protocols, and where they are."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.sql import grouped_by


def traits(records: DataFrame, changes: DataFrame) -> DataFrame:
    """One row per peer and trait that its run's traces tell: run, peer, trait, value. Of several
    values of a peer, such as the protocols of two streams, all, in order.

    `software` and the router beside it are those of the headers of the peer's trace, and so is its
    `region`; of a simulated node, that is in the event of its start. A `protocol` of a peer is one
    that others opened streams to it with.
    """
    it = F.from_json("detail", "software string, router string, region string")
    headers = records.where("status = 'event' AND event = 'header'").withColumn("it", it)
    said = headers.selectExpr(
        "run", "peer", "concat_ws(', ', it.software, it.router) AS software", "it.region"
    )
    spoken = changes.where("event = 'stream-up'").selectExpr(
        "run", "remote AS peer", "kind AS protocol"
    )
    placed = changes.where("event = 'node' AND state = 'start'").selectExpr(
        "run", "peer", "kind AS region"
    )
    rows = _long(said, "software", "region").unionByName(_long(spoken, "protocol"))
    rows = rows.unionByName(_long(placed, "region"))
    value = "array_join(array_sort(collect_set(value)), ', ')"
    return grouped_by(rows, ["run", "peer", "trait"], value=value)


def _long(table: DataFrame, *names: str) -> DataFrame:
    """A row for each of the columns `names` that says anything."""
    said = F.array(*(F.struct(F.lit(n).alias("trait"), F.col(n).alias("value")) for n in names))
    return table.select("run", "peer", F.inline(said)).where("peer IS NOT NULL AND value <> ''")
