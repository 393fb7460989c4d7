"""What is believed of traces that are damaged: flipped bits make names and times that nothing else
speaks for."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.lake import is_of
from episub_router.pipeline.params import SECOND
from episub_router.pipeline.sql import grouped_by
from episub_router.trace.reading.frames import CUT_OFF

MENTIONED = 3
"""Events that a name is in at least. Of a message it is one less: one that nobody got has its
publishing, and the delivery at its publisher."""

_RARE = 200
"""Times rarer than the most frequent peer, from which on one that a single file names isn't
believed either."""

_NAMES = ("peer", "remote", "message", "topic")


def damaged(records: DataFrame, runs: Sequence[str]) -> list[str]:
    """Those of `runs` that have anything unreadable but last events that their writers were
    stopped in."""
    if not runs:
        return []
    of_files = grouped_by(
        records.where(is_of(runs) & (F.col("status") != "file")), ["run", "file"],
        last="max(offset)", first="min(CASE WHEN status = 'quarantined' THEN offset END)",
        other=f"count_if(status = 'quarantined' AND NOT detail <=> '{CUT_OFF}') > 0",
    )  # fmt: skip
    found = of_files.where("other OR first < last").select("run").distinct().collect()
    return sorted(row.run for row in found)


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
    rare = grouped_by(
        named, ["run", "kind", "name"], count="count(*)", files="count(DISTINCT file)"
    )
    most = F.max("count").over(Window.partitionBy("run", "kind"))
    rare = rare.withColumn("most", most).where(
        f"name = '' OR count < if(kind = 'message', {MENTIONED - 1}, {MENTIONED}) "
        f"OR kind = 'peer' AND files = 1 AND count < most / {_RARE}"
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
