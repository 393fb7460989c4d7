"""Which peer received anything from which other."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.windows import window_of


def contacts(events: DataFrame, params: AnswerParams) -> DataFrame:
    """Which peer received anything from which other in each window: run, window, peer, remote,
    count. Where `remote` is null, `count` is of all other events of the peer."""
    received = F.col("event").isin("recv", "deliver", "duplicate") & (
        F.col("remote") != F.col("peer")
    )
    remote = F.when(received, F.col("remote"))
    key = ("run", window_of("time", params).alias("window"), "peer", remote.alias("remote"))
    return events.where(~F.col("event").isin("header", "report")).groupBy(*key).count()
