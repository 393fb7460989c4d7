"""What each peer traced, window by window: the one look at all events that several facts and
answers are made of."""

from __future__ import annotations

from pyspark.sql import DataFrame

from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.sql import grouped_by, window_of


def contacts(events: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per window, peer and peer that its events name (`remote`, null where they name none):
    run, window, peer, remote, begin and end (times of the first and last of these events),
    delivered (time of the last delivery), and how many of them are what: count (all but headers and
    reports), received (of anything from another peer), receipts (RPCs that came), unknown (of a
    kind that this version doesn't know), late."""
    return grouped_by(
        events.withColumn("window", window_of("time", params)), ["run", "window", "peer", "remote"],
        begin="min(time)", end="max(time)",
        delivered="max(CASE WHEN event = 'deliver' THEN time END)",
        count="count_if(event NOT IN ('header', 'report'))",
        received="count_if(event IN ('recv', 'deliver', 'duplicate') AND remote != peer)",
        receipts="count_if(event = 'recv')", unknown="count_if(event = 'other')",
        late="count_if(late)",
    )  # fmt: skip
