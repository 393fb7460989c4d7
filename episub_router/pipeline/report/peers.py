"""Which peers fared worst, why, and how those fared that have a trait in common."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.beside import beside
from episub_router.pipeline.report.model import Row
from episub_router.pipeline.report.queries import first

_DEEP = 1.25
_SLOW = 1.5
"""Times the mean over a run's peers, from which on a depth or a latency says something. Ours."""


def fared(arrivals: DataFrame, causes: DataFrame) -> DataFrame:
    """How each peer fared with the messages of others: run, peer, expected, missing, late, latency
    (ns) and hops (means)."""
    served = F.col("delivered") & F.col("latency").isNotNull()
    late = causes.where(F.col("latency").isNotNull()).groupBy("run", "peer")
    of_all = (
        arrivals.where(F.col("live") & ~F.col("origin"))
        .groupBy("run", "peer")
        .agg(
            F.count("*").alias("expected"),
            F.count_if(~F.col("delivered")).alias("missing"),
            F.avg(F.when(served, F.col("latency"))).alias("latency"),
            F.avg("hops").alias("hops"),
        )
    )
    table = beside(("run", "peer"), of_all, late.agg(F.count("*").alias("late")))
    return table.where("expected IS NOT NULL").fillna(0, ["late"])


def by_trait(of_peers: DataFrame, traits: DataFrame, groups: DataFrame, most: int) -> DataFrame:
    """The table `groups` with what was late to them, as peers `fared`: of each run and trait the
    `most` largest."""
    key = ("run", "trait", "value")
    named = of_peers.join(F.broadcast(traits), ["run", "peer"])
    late = named.groupBy(*key).agg(F.sum("late").alias("late"))
    return first(beside(key, groups, late), [F.col("peers").desc(), F.col("value")], most, "trait")


def worst(of_peers: DataFrame, causes: DataFrame, most: int, enough: int) -> DataFrame:
    """The `most` peers of each run that lack the most, then those that got the most late, then the
    slowest, of those that were to get `enough` messages: the columns of `fared`, causes (how many
    of each, the most frequent first, as text), and the means over all peers."""
    counted = causes.groupBy("run", "peer", "cause").agg(F.count("*").alias("pairs"))
    order = F.array_sort(F.collect_list(F.struct((-F.col("pairs")).alias("less"), "cause")))
    said = F.transform(
        order, lambda one: F.concat_ws(" ", (-one["less"]).cast("string"), one["cause"])
    )
    named = counted.groupBy("run", "peer").agg(F.array_join(said, ", ").alias("causes"))
    table = beside(("run", "peer"), of_peers, named)
    of_run = Window.partitionBy("run")
    for name in ("latency", "hops"):
        table = table.withColumn(f"usual_{name}", F.avg(name).over(of_run))
    ordered = [F.col(name).desc_nulls_last() for name in ("missing", "late", "latency")]
    return first(table.where(F.col("expected") >= enough), [*ordered, F.col("peer")], most)


def reason(row: Row) -> str:
    """Why a peer of `worst` fared as it did."""
    said = [row["causes"]] if row["causes"] else []
    if _is_beyond(row, "hops", _DEEP):
        said.append(f"deep in the trees, {row['hops']:.1f} hops where the mean is "
                    f"{row['usual_hops']:.1f}")  # fmt: skip
    elif not said and _is_beyond(row, "latency", _SLOW):
        said.append("no deeper than others: it or a link on the way to it is slow")
    return "; ".join(said) or "nothing lacks"


def _is_beyond(row: Row, name: str, times: float) -> bool:
    value, usual = row[name], row[f"usual_{name}"]
    return value is not None and usual is not None and value > times * max(usual, 0)
