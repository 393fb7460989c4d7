"""From when to when runs go, whatever times damaged events have."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams


def spans(events: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per run: run, begin, end (ns) of its events but the outliers, and how many these
    are. An outlier is further than `longest` from the median: one wrong time would otherwise make
    a run of years, after most of which all nodes but one are silent."""
    middle = events.groupBy("run").agg(F.percentile_approx("time", 0.5).alias("middle"))
    is_near = F.abs(F.col("time") - F.col("middle")) <= int(params.longest * SECOND)
    times = F.when(is_near, F.col("time"))
    return (
        events.select("run", "time")
        .join(F.broadcast(middle), "run")
        .groupBy("run")
        .agg(
            F.min(times).alias("begin"), F.max(times).alias("end"),
            F.count_if(~is_near).alias("outliers"),
        )
    )  # fmt: skip
