"""Which peers fared worst, why, and how those fared that have a trait in common."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.report.model import Row
from episub_router.pipeline.report.queries import first
from episub_router.pipeline.sql import beside, grouped_by

_DEEP = 1.25
_SLOW = 1.5
"""Times the mean over a run's peers, from which on a depth or a latency says something. Ours."""


def fared(arrivals: DataFrame, causes: DataFrame) -> DataFrame:
    """How each peer fared with the messages of others: run, peer, expected, missing, late, latency
    (ns) and hops (means)."""
    expected = grouped_by(
        arrivals.where("live AND NOT origin"), ["run", "peer"], expected="count(*)",
        missing="count_if(NOT delivered)",
        latency="avg(CASE WHEN delivered THEN latency END)", hops="avg(hops)",
    )  # fmt: skip
    late = grouped_by(causes.where("latency IS NOT NULL"), ["run", "peer"], late="count(*)")
    table = beside(("run", "peer"), expected, late)
    return table.where("expected IS NOT NULL").fillna(0, ["late"])


def by_trait(of_peers: DataFrame, traits: DataFrame, groups: DataFrame, most: int) -> DataFrame:
    """The table `groups` with what was late to them, as peers `fared`: of each run and trait the
    `most` largest."""
    key = ("run", "trait", "value")
    named = of_peers.join(F.broadcast(traits), ["run", "peer"])
    late = grouped_by(named, key, late="sum(late)")
    return first(beside(key, groups, late), [F.col("peers").desc(), F.col("value")], most, "trait")


def worst(of_peers: DataFrame, causes: DataFrame, most: int, enough: int) -> DataFrame:
    """The `most` peers of each run that lack the most, then those that got the most late, then the
    slowest, of those that were to get `enough` messages: the columns of `fared`, causes (how many
    of each, the most frequent first, as text), and the means over all peers."""
    counted = grouped_by(causes, ["run", "peer", "cause"], less="-count(*)")
    said = "transform(array_sort(collect_list(struct(less, cause))), one -> concat_ws(' ', {}))"
    said = said.format("string(-one.less), one.cause")
    named = grouped_by(counted, ["run", "peer"], causes=f"array_join({said}, ', ')")
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
