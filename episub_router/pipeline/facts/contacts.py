"""What each peer traced, and whom it heard of, slice by slice of time: the one pass over all events
that several facts and answers are made of."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.sql import grouped_by

_CAME = "event IN ('recv', 'deliver', 'duplicate') AND remote != peer"
_MET = (
    "(event = 'neighbor' AND state = 'up' OR event = 'stream-up' OR rtt IS NOT NULL) "
    "AND remote != peer"
)


def contacts(events: DataFrame, params: AnswerParams) -> DataFrame:
    """One row per slice of time (`AnswerParams.slice`), peer and peer that its events name
    (`remote`, null where they name none): run, slice, peer, remote, begin and end (times of the
    first and last of these events), heard and heard_last (of what came from `remote`), met and
    met_last (of links and round trips that say the same), delivered (time of the last delivery),
    and how many of the events are what: count (all but headers and reports), receipts and
    sends (RPCs), unknown (of a kind that this version doesn't know), late."""
    begin = F.col("time") - F.pmod("time", F.lit(params.slice))
    return grouped_by(
        events.withColumn("slice", begin), ["run", "slice", "peer", "remote"],
        begin="min(time)", end="max(time)",
        heard=f"min(CASE WHEN {_CAME} THEN time END)",
        heard_last=f"max(CASE WHEN {_CAME} THEN time END)",
        met=f"min(CASE WHEN {_MET} THEN time END)",
        met_last=f"max(CASE WHEN {_MET} THEN time END)",
        delivered="max(CASE WHEN event = 'deliver' THEN time END)",
        count="count_if(event NOT IN ('header', 'report'))",
        receipts="count_if(event = 'recv')", sends="count_if(event = 'send')",
        unknown="count_if(event = 'other')", late="count_if(late)",
    )  # fmt: skip
