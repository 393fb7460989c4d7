"""What is believed of traces that are damaged: flipped bits make names and times that nothing else
speaks for."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.lake import is_of
from episub_router.pipeline.params import SECOND
from episub_router.pipeline.sql import grouped_by

MENTIONED = 3
"""Events that a name is in at least. Chosen: a message has one at its publisher, and one at each
peer that it comes to."""

_RARE = 200
"""Times rarer than the most frequent peer, from which on one isn't believed either."""

_NAMES = ("peer", "remote", "message", "topic")


def sane(records: DataFrame, damaged: Sequence[str]) -> DataFrame:
    """`records` with what isn't believed of the `damaged` runs as quarantined: events with a name
    that is empty or that few events of the run have, and those that aren't at a time between the
    two before and the two after them of their peer, or further from nine of ten of their
    file than these are from each other."""
    if not damaged:
        return records
    place = ["run", "file", "offset"]
    events = records.where((F.col("status") == "event") & is_of(damaged))
    kinds = {"remote": "peer"}
    pairs = ", ".join(
        f"struct('{kinds.get(name, name)}' AS kind, {name} AS name)" for name in _NAMES
    )
    named = events.selectExpr(*place, f"inline(array({pairs}))").where("name IS NOT NULL")
    rare = grouped_by(named, ["run", "kind", "name"], count="count(*)")
    most = F.max("count").over(Window.partitionBy("run", "kind"))
    rare = rare.withColumn("most", most).where(
        f"name = '' OR count < {MENTIONED} OR kind = 'peer' AND count < most / {_RARE}"
    )
    by_name = named.join(rare.select("run", "kind", "name"), ["run", "kind", "name"], "left_semi")
    by_name = by_name.select(*place)
    ends = grouped_by(
        events.where("event != 'header'"), ["run", "file"],
        low="percentile(time, 0.05)", high="percentile(time, 0.95)",
    )  # fmt: skip
    order = Window.partitionBy("run", "file", "peer").orderBy("offset")
    timed = events.select(
        *place, "time",
        F.least(*(F.lag("time", n).over(order) for n in (1, 2))).alias("before"),
        F.greatest(*(F.lead("time", n).over(order) for n in (1, 2))).alias("after"),
    ).join(F.broadcast(ends), ["run", "file"])  # fmt: skip
    width = f"greatest(high - low, {10 * SECOND})"
    by_time = timed.where(
        f"time < before - {SECOND} OR time > after + {SECOND} "
        f"OR time NOT BETWEEN low - {width} AND high + {width}"
    ).select(*place)
    wrong = by_name.unionByName(by_time).distinct().withColumn("wrong", F.lit(True))
    return (
        records.join(wrong, place, "left")
        .withColumn("wrong", F.expr("coalesce(wrong, false) AND status = 'event'"))
        .withColumn("status", F.expr("if(wrong, 'quarantined', status)"))
        .withColumn("detail", F.expr("if(wrong, 'nothing else speaks for it', detail)"))
        .drop("wrong")
    )
