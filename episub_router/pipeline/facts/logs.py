"""What SDS channels did."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def is_sds() -> Column:
    """Whether an event is one of SDS channels."""
    return F.col("event") == "sds"


def sds(events: DataFrame) -> DataFrame:
    """One row per SDS event: run, topic, peer, time, offset, size and the fields of
    `schemas.SDS`."""
    return events.where(is_sds()).select("run", "topic", "peer", "time", "offset", "size", "sds.*")
