"""From when to when runs go, whatever times damaged events have."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams


def spans(contacts: DataFrame, changes: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per run: run, begin, end (ns) of its events but the outliers, how many these are, and
    settled. Outliers are those in windows further than `longest` from the median: one wrong time
    would otherwise make a run of years, after most of which all nodes but one are silent.

    `settled` is when the run's outcome is looked at: at its end or, where nodes still went after
    the last delivery, at that delivery. At the end of a run whose nodes are stopped one by one,
    nothing is left to see.
    """
    longest = int(params.longest * SECOND)
    windows = contacts.groupBy("run", "window").agg(
        F.sum(F.greatest("count", F.lit(1))).alias("weight"),
        F.min("begin").alias("begin"),
        F.max("end").alias("end"),
        F.max("delivered").alias("delivered"),
        F.sum("count").alias("count"),
    )
    middle = F.expr("percentile(window, 0.5, weight)").over(Window.partitionBy("run"))
    # In floating point: a damaged time may be as far away as there are numbers.
    is_near = F.abs(F.col("window").cast("double") - F.col("middle")) <= longest
    of_run = (
        windows.withColumn("middle", middle)
        .groupBy("run")
        .agg(
            F.min(F.when(is_near, F.col("begin"))).alias("begin"),
            F.max(F.when(is_near, F.col("end"))).alias("end"),
            F.sum(F.when(~is_near, F.col("count")).otherwise(0)).alias("outliers"),
            F.max(F.when(is_near, F.col("delivered"))).alias("delivered"),
        )
    )
    gone = (F.col("event") == "leave") | (
        (F.col("event") == "node") & F.col("state").isin("leave", "crash")
    )
    # An outlier among them is after the end, if it isn't before any delivery.
    times = changes.where(gone).select(F.col("run").alias("of"), F.col("time").alias("went"))
    by_end = (F.col("of") == F.col("run")) & (F.col("went") <= F.col("end"))
    table = (
        of_run.join(times, by_end, "left").groupBy(*of_run.columns).agg(F.max("went").alias("went"))
    )
    settled = F.when(F.col("went") > F.col("delivered"), F.col("delivered"))
    return table.select(
        "run", "begin", "end", "outliers", F.coalesce(settled, "end").alias("settled")
    )
