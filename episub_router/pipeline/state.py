"""What a stream keeps of a run from batch to batch: the events that answers still depend on,
reduced to what these need of them.

Rows are events with some of their columns, so that facts are made of them as of any events:

- of messages that may still change, the publishing and each peer's first receipt;
- how often each of these was sent and came in vain (`count`);
- of joins, links and nodes' lives all that is recent, and of what is older the latest of each kind,
  since it says what was so when the recent part begins;
- the last that each peer traced;
- a sample of what was in RPCs, at both ends, for the clocks;
- which messages are known, so that what comes of one when it is closed opens it no more.

So the state is as large as the time that is open, whatever the run's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from episub_router.pipeline.facts.clocks import ends, matched
from episub_router.pipeline.facts.lives import CHANGES
from episub_router.pipeline.facts.traffic import transmissions
from episub_router.pipeline.lake import RECORD
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import grouped_by

_EVENT = (
    "run", "event", "peer", "time", "topic", "message", "remote", "hops", "size", "seq", "state",
    "file", "offset",
)  # fmt: skip

STATE = StructType(
    [
        StructField("role", StringType()),
        *(RECORD[name] for name in _EVENT),
        StructField("count", LongType()),
    ]
)
"""`role` is `event`, `seen` (the peer's last), `copies`, `sent`, `end` (of an exchange, `seq` being
the hash of what was in it) or `known`."""

ENDS = 200_000
"""Ends of exchanges that are kept, about. Chosen: a hundred each for 1,000 peers."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """What is still open. All in ns."""

    first: int
    """Messages published before it are closed."""
    kept: int
    """What happened before it has no part in answers."""
    lasting: int
    """Of what lasts, only the latest before it counts."""
    known: int
    """Messages from before it are forgotten."""

    @classmethod
    def of(cls, watermark: int, params: AnswerParams) -> Horizon:
        """Windows are closed that end `patience` before the watermark. A window more is kept: a
        tree is compared with the one before."""
        size, patience = int(params.window * SECOND), int(params.patience * SECOND)
        first = (watermark - patience) // size * size
        kept = first - size
        return cls(first, kept, kept - patience, kept - int(params.lateness * SECOND))


def reduced(events: DataFrame) -> DataFrame:
    """The rows of `STATE` that follow from `events`."""
    plain = events.where(F.col("event").isin(*CHANGES, "publish", "deliver"))
    messages = events.where("event IN ('publish', 'deliver')")
    which = events.withColumn("event", F.expr("if(event = 'recv', 'recv', 'other')"))
    exchanged = ends(events).selectExpr(
        "run", "if(sent IS NULL, 'recv', 'send') AS event",
        "if(sent IS NULL, receiver, sender) AS peer",
        "if(sent IS NULL, sender, receiver) AS remote", "coalesce(sent, received) AS time",
        "what AS seq", "1 AS count",
    )  # fmt: skip
    sent = transmissions(events).where("direction = 'send'")
    made = {
        "event": plain.drop("count"),
        "seen": grouped_by(which, ["run", "peer", "event"], time="max(time)"),
        "known": grouped_by(messages, ["run", "message"], time="min(time)", event="'known'"),
        "copies": _counted(events.where("event = 'duplicate'"), "duplicate"),
        "sent": _counted(sent, "send"),
        "end": exchanged,
    }
    return reduce(DataFrame.unionByName, (_as_state(*one) for one in made.items()))


def _counted(table: DataFrame, event: str) -> DataFrame:
    """Rows of each message, and the time of the last: run, message, count, time, event."""
    rows = table.where("message IS NOT NULL")
    return grouped_by(
        rows, ["run", "message"], count="count(*)", time="max(time)", event=f"'{event}'"
    )


def _as_state(role: str, table: DataFrame) -> DataFrame:
    there = table.withColumn("role", F.lit(role))
    return there.select(*(
        (F.col(field.name) if field.name in there.columns else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in STATE
    ))  # fmt: skip


def merged(rows: DataFrame, horizon: Horizon | None) -> DataFrame:
    """`rows` of `STATE`, of some batches, as one state; without `horizon` all is open."""
    role, event, time = F.col("role"), F.col("event"), F.col("time")
    is_lasting = (role == "event") & event.isin(*CHANGES)
    is_old = F.lit(False)
    if horizon is not None:
        is_old = is_lasting & (time < horizon.lasting)
        open_since = F.when(role == "known", horizon.known).otherwise(horizon.kept)
        rows = rows.where(is_lasting | (role == "seen") | (time >= open_since))
    layer = (
        F.when(event.isin("graft", "prune"), "tree")
        .when(event.isin("stream-up", "stream-down"), "stream")
        .when(event.isin("neighbor", "node"), F.concat(event, "state"))
        .otherwise(event)
    )
    itself = F.concat_ws(" ", "file", F.col("offset").cast("string"), F.col("seq").cast("string"))
    # Of several rows in one place one stays: the first receipt, or the latest of what lasts.
    place = {
        "which": F.when(is_old, layer).when(is_lasting, itself).otherwise(event),
        "at": F.when(~role.isin("copies", "sent", "known"), F.col("peer")),
        "of": F.when(is_lasting, F.col("remote")),
        "within": F.when(is_lasting, F.col("topic")),
        "about": F.when(~is_lasting, F.col("message")),
    }
    named = [role, F.col("run"), *place.values()]
    # Groups are found by sorting: by a number first, which is quick.
    key = [F.xxhash64(*named), role, F.col("run"), *(v.alias(name) for name, v in place.items())]
    order = F.when(event.isin("publish", "deliver", "known"), time).otherwise(-time)
    columns = [name for name in STATE.names if name not in ("run", "role", "count", "offset")]
    row = F.min(F.struct(order.alias("order"), "offset", *columns)).alias("row")
    made = rows.where(role != "end").groupBy(*key).agg(row, F.sum("count").alias("count"))
    made = made.select(
        "role", "run", "row.offset", *(f"row.{name}" for name in columns), "count"
    ).select(*STATE.names)
    # The most by far, and each in a place of its own: what an end had twice isn't matched anyway.
    return made.unionByName(rows.where(role == "end").select(*STATE.names))


def sampled(state: DataFrame) -> DataFrame:
    """`state` with `ENDS` ends of exchanges at most, about: both ends of one, or neither."""
    is_end = F.col("role") == "end"
    counted = grouped_by(state.where(is_end), ["run"], ends="count(*)")
    power = F.greatest(F.ceil(F.log2(F.col("ends") / ENDS)), F.lit(0))
    one_in = F.coalesce(F.pow(F.lit(2.0), power).cast("long"), F.lit(1).cast("long"))
    rows = state.join(F.broadcast(counted), "run", "left")
    return rows.where(~is_end | (F.pmod("seq", one_in) == 0)).select(*STATE.names)


def events_of(state: DataFrame) -> DataFrame:
    """`state` as events, for facts."""
    kept = state.where(F.col("role").isin("event", "seen")).drop("role", "count")
    kept = kept.withColumn("late", F.lit(False))
    # What no answer of a stream asks for.
    missing = ("kind", "parts", "rtt")
    return kept.withColumns({name: F.lit(None).cast(RECORD[name].dataType) for name in missing})


def exchanges_of(state: DataFrame) -> DataFrame:
    """What `facts.clocks.exchanges` gives."""
    # What an end had twice can't be matched.
    return matched(state.where("role = 'end' AND count = 1").selectExpr(
        "run", "if(event = 'send', peer, remote) AS sender",
        "if(event = 'send', remote, peer) AS receiver", "if(event = 'send', time, NULL) AS sent",
        "if(event = 'send', NULL, time) AS received", "seq AS what",
    ))  # fmt: skip


def counts_of(state: DataFrame, role: str, name: str) -> DataFrame:
    """What `answers.messages.copies` and `sent` give."""
    return state.where(F.col("role") == role).select("run", "message", F.col("count").alias(name))


def forgotten(state: DataFrame, horizon: Horizon) -> DataFrame:
    """Messages that are closed, and whose publishing isn't in the state any more: run, message."""
    is_old = (F.col("role") == "known") & (F.col("time") < horizon.kept)
    return state.where(is_old).select("run", "message")
