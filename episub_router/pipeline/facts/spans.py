"""From when to when runs go, whatever times damaged events have."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams


def spans(events: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per run: run, begin, end (ns) of its events but the outliers, how many these are, and
    settled. An outlier is further than `longest` from the median: one wrong time would otherwise
    make a run of years, after most of which all nodes but one are silent.

    `settled` is when the run's outcome is looked at: at its end or, where nodes still went after
    the last delivery, at that delivery. At the end of a run whose nodes are stopped one by one,
    nothing is left to see.
    """
    middle = events.groupBy("run").agg(F.percentile_approx("time", 0.5).alias("middle"))
    is_near = F.abs(F.col("time") - F.col("middle")) <= int(params.longest * SECOND)
    times = F.when(is_near, F.col("time"))
    went = (F.col("event") == "leave") | (
        (F.col("event") == "node") & F.col("state").isin("leave", "crash")
    )
    of_run = (
        events.select("run", "time", "event", "state")
        .join(F.broadcast(middle), "run")
        .groupBy("run")
        .agg(
            F.min(times).alias("begin"), F.max(times).alias("end"),
            F.count_if(~is_near).alias("outliers"),
            F.max(F.when(F.col("event") == "deliver", times)).alias("delivered"),
            F.max(F.when(went, times)).alias("went"),
        )
    )  # fmt: skip
    settled = F.when(F.col("went") > F.col("delivered"), F.col("delivered"))
    return of_run.select(
        "run", "begin", "end", "outliers", F.coalesce(settled, "end").alias("settled")
    )
