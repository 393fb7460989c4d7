"""How messages got to peers of each kind: cuts by software, protocol and region."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def groups(traits: DataFrame, arrivals: DataFrame) -> DataFrame:
    """The table `groups`: one row per trait and value of it that a peer has that was to get a
    message of another: how many such peers there are, and how they fared."""
    others = arrivals.where(F.col("live") & ~F.col("origin"))
    quantile = "percentile_disc({}) WITHIN GROUP (ORDER BY latency) FILTER (WHERE delivered)"
    came = F.col("delivered")
    return (
        others.join(F.broadcast(traits), ["run", "peer"])
        .groupBy("run", "trait", "value")
        .agg(
            F.count_distinct("peer").alias("peers"),
            F.count("*").alias("expected"),
            F.count_if(~came).alias("missing"),
            F.avg(F.when(came, F.col("latency"))).alias("latency_mean"),
            F.expr(quantile.format(0.5)).alias("latency_p50"),
            F.expr(quantile.format(0.99)).alias("latency_p99"),
            F.avg(F.when(came, F.col("hops"))).alias("hops_mean"),
        )
    )
