"""What each peer traced, window by window: the one look at all events that several facts and
answers are made of."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.windows import window_of


def contacts(events: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per window, peer and peer that its events name (`remote`, null where they name none):
    run, window, peer, remote, begin and end (times of the first and last of these events),
    delivered (time of the last delivery), and how many of them are what: count (all but headers and
    reports), received (of anything from another peer), receipts (RPCs that came), unknown (of a
    kind that this version doesn't know), late."""
    event = F.col("event")
    received = event.isin("recv", "deliver", "duplicate") & (F.col("remote") != F.col("peer"))
    return events.groupBy("run", window_of("time", params).alias("window"), "peer", "remote").agg(
        F.min("time").alias("begin"),
        F.max("time").alias("end"),
        F.max(F.when(event == "deliver", F.col("time"))).alias("delivered"),
        F.count_if(~event.isin("header", "report")).alias("count"),
        F.count_if(received).alias("received"),
        F.count_if(event == "recv").alias("receipts"),
        F.count_if(event == "other").alias("unknown"),
        F.count_if("late").alias("late"),
    )
