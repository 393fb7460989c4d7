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

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from episub_router.pipeline.facts.clocks import ends, matched
from episub_router.pipeline.facts.lives import CHANGES
from episub_router.pipeline.facts.traffic import transmissions
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.schemas import RECORD

_EVENT = (
    "run", "event", "peer", "time", "topic", "message", "remote", "hops", "size", "seq", "state",
    "file", "offset",
)  # fmt: skip

STATE = StructType(
    [
        StructField("role", RECORD["event"].dataType, False),
        *(RECORD[name] for name in _EVENT),
        StructField("count", LongType(), True),
    ]
)
"""`role` is `event`, `seen` (the peer's last), `copies`, `sent`, `end` (of an exchange, `seq` being
the hash of what was in it) or `known`."""

ENDS = 200_000
"""Ends of exchanges that are kept, about. Ours: a hundred each for 1,000 peers."""


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
    seen = events.groupBy("run", "peer", _receipt().alias("event")).agg(F.max("time").alias("time"))
    known = (
        events.where(F.col("event").isin("publish", "deliver"))
        .groupBy("run", "message")
        .agg(F.min("time").alias("time"))
        .withColumn("event", F.lit("known"))
    )
    duplicates = events.where(F.col("event") == "duplicate")
    sends = transmissions(events).where(F.col("direction") == "send")
    is_send = F.col("sent").isNotNull()
    exchanged = ends(events).select(
        "run",
        F.when(is_send, "send").otherwise("recv").alias("event"),
        F.when(is_send, F.col("sender")).otherwise(F.col("receiver")).alias("peer"),
        F.when(is_send, F.col("receiver")).otherwise(F.col("sender")).alias("remote"),
        F.coalesce("sent", "received").alias("time"),
        F.col("what").alias("seq"),
        F.lit(1).alias("count"),
    )
    made = _as_state("event", plain.drop("count"))
    for role, table in (
        ("seen", seen),
        ("known", known),
        ("copies", _counted(duplicates).withColumn("event", F.lit("duplicate"))),
        ("sent", _counted(sends).withColumn("event", F.lit("send"))),
        ("end", exchanged),
    ):
        made = made.unionByName(_as_state(role, table))
    return made


def _counted(table: DataFrame) -> DataFrame:
    """Rows of each message, and the time of the last: run, message, count, time."""
    rows = table.where(F.col("message").isNotNull()).groupBy("run", "message")
    return rows.agg(F.count("*").alias("count"), F.max("time").alias("time"))


def _receipt() -> Column:
    return F.when(F.col("event") == "recv", "recv").otherwise("other")


def _as_state(role: str, table: DataFrame) -> DataFrame:
    there = set(table.columns)
    return table.select(
        F.lit(role).alias("role"),
        *(
            (F.col(field.name) if field.name in there else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in STATE.fields[1:]
        ),
    )


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
    counted = state.where(is_end).groupBy("run").agg(F.count("*").alias("ends"))
    power = F.greatest(F.ceil(F.log2(F.col("ends") / ENDS)), F.lit(0))
    one_in = F.coalesce(F.pow(F.lit(2.0), power).cast("long"), F.lit(1).cast("long"))
    return (
        state.join(F.broadcast(counted), "run", "left")
        .where(~is_end | (F.pmod("seq", one_in) == 0))
        .select(*STATE.names)
    )


def events_of(state: DataFrame) -> DataFrame:
    """`state` as events, for facts."""
    kept = state.where(F.col("role").isin("event", "seen")).drop("role", "count")
    kept = kept.withColumn("late", F.lit(False))
    # What no answer of a stream asks for.
    missing = ("kind", "parts")
    return kept.withColumns({name: F.lit(None).cast(RECORD[name].dataType) for name in missing})


def exchanges_of(state: DataFrame) -> DataFrame:
    """What `facts.clocks.exchanges` gives."""
    is_send = F.col("event") == "send"
    # What an end had twice can't be matched.
    there = state.where("role = 'end' AND count = 1").select(
        "run",
        F.when(is_send, F.col("peer")).otherwise(F.col("remote")).alias("sender"),
        F.when(is_send, F.col("remote")).otherwise(F.col("peer")).alias("receiver"),
        F.when(is_send, F.col("time")).alias("sent"),
        F.when(~is_send, F.col("time")).alias("received"),
        F.col("seq").alias("what"),
    )
    return matched(there)


def counts_of(state: DataFrame, role: str, name: str) -> DataFrame:
    """What `answers.messages.copies` and `sent` give."""
    return state.where(F.col("role") == role).select("run", "message", F.col("count").alias(name))


def forgotten(state: DataFrame, horizon: Horizon) -> DataFrame:
    """Messages that are closed, and whose publishing isn't in the state any more: run, message."""
    is_old = (F.col("role") == "known") & (F.col("time") < horizon.kept)
    return state.where(is_old).select("run", "message")
