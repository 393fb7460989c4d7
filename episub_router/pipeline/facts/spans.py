"""From when to when runs go, whatever times damaged events have."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import grouped_by


def spans(contacts: DataFrame, changes: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per run: run, begin, end (ns) of its events but the outliers, how many these are, and
    settled. Outliers are those in slices further than `longest` from the median: one wrong time
    would otherwise make a run of years, after most of which all nodes but one are silent.

    `settled` is when the run's outcome is looked at: at its end or, where nodes still went after
    the last delivery, at that delivery. At the end of a run whose nodes are stopped one by one,
    nothing is left to see.
    """
    slices = grouped_by(
        contacts, ["run", "slice"], weight="sum(greatest(count, 1))", begin="min(begin)",
        end="max(`end`)", delivered="max(delivered)", count="sum(count)",
    )  # fmt: skip
    middle = F.expr("percentile(slice, 0.5, weight)").over(Window.partitionBy("run"))
    # In floating point: a damaged time may be as far away as there are numbers.
    is_near = F.abs(F.col("slice").cast("double") - middle) <= int(params.longest * SECOND)
    of_run = grouped_by(
        slices.withColumn("near", is_near), ["run"], begin="min(CASE WHEN near THEN begin END)",
        end="max(CASE WHEN near THEN `end` END)",
        outliers="sum(CASE WHEN near THEN 0 ELSE count END)",
        delivered="max(CASE WHEN near THEN delivered END)",
    )  # fmt: skip
    gone = "event = 'leave' OR event = 'node' AND state IN ('leave', 'crash')"
    # An outlier among them is after the end, if it isn't before any delivery.
    times = changes.where(gone).selectExpr("run AS of", "time AS went")
    by_end = (F.col("of") == F.col("run")) & (F.col("went") <= F.col("end"))
    table = of_run.join(times, by_end, "left")
    return grouped_by(table, of_run.columns, went="max(went)").selectExpr(
        "run", "begin", "`end`", "outliers",
        "coalesce(CASE WHEN went > delivered THEN delivered END, `end`) AS settled",
    )  # fmt: skip
