"""How messages got to peers of each kind: cuts by software, protocol and region."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.sql import grouped_by, quantile


def groups(traits: DataFrame, arrivals: DataFrame) -> DataFrame:
    """The table `groups`: one row per trait and value of it that a peer has that was to get a
    message of another: how many such peers there are, and how they fared."""
    others = arrivals.where("live AND NOT origin").join(F.broadcast(traits), ["run", "peer"])
    came = "FILTER (WHERE delivered)"
    return grouped_by(
        others, ["run", "trait", "value"], peers="count(DISTINCT peer)", expected="count(*)",
        missing="count_if(NOT delivered)", latency_mean=f"avg(latency) {came}",
        latency_p50=f"{quantile('latency', 0.5)} {came}",
        latency_p99=f"{quantile('latency', 0.99)} {came}", hops_mean=f"avg(hops) {came}",
    )  # fmt: skip
