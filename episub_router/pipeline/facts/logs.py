"""What SDS channels did."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def sds(events: DataFrame) -> DataFrame:
    """One row per SDS event: run, topic, peer, time, offset, size and the fields of
    `schemas.SDS`."""
    return events.where(F.col("event") == "sds").select(
        "run", "topic", "peer", "time", "offset", "size", "sds.*"
    )
