"""What a stream keeps of a run from batch to batch: the events that answers still depend on,
reduced to what these need of them.

Rows are events with some of their columns, so that facts are made of them as of any events. What a
batch had of messages is kept as it is until it is too old, and nothing is made anew of it:

- the publishings, and each peer's receipts;
- how often a message was sent and came in vain (`count`);
- a sample of what was in RPCs, at both ends, for the clocks.

What lasts is little, and each batch's is merged with that of those before:

- of joins, links and nodes' lives all that is recent, and of what is older the latest of each kind,
  since it says what was so when the recent part begins;
- the last that each peer traced;
- which messages are known, so that what comes of one when it is closed opens it no more.

So both are as large as the time that is open, whatever the run's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from math import ceil, log2

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
"""`role` is `event` (of a message), `copies`, `sent`, `end` (of an exchange, `seq` being the hash
of what was in it) or, of what lasts, `change`, `seen` (the peer's last) or `known`."""

ENDS = 20_000
"""Ends of exchanges of a batch that are kept, about. Chosen: with some batches that are open, a
hundred each for 1,000 peers."""


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


def one_in(events: int) -> int:
    """Of how many ends of exchanges one is kept, of a batch with so many `events`. Powers of two:
    what is kept by the larger of two is by the other, so that an exchange can be in two batches."""
    return 1 << max(0, ceil(log2(max(events, 1) / ENDS)))


def reduced(events: DataFrame, one_in: int = 1) -> DataFrame:
    """The rows of `STATE` that follow from `events`, with one in `one_in` ends of exchanges."""
    messages = events.where("event IN ('publish', 'deliver')")
    which = events.withColumn("event", F.expr("if(event = 'recv', 'recv', 'other')"))
    exchanged = ends(events).where(F.pmod("what", F.lit(one_in)) == 0).selectExpr(
        "run", "sender AS peer", "receiver AS remote", "what AS seq",
        "if(sent IS NULL, 'recv', 'send') AS event", "coalesce(sent, received) AS time",
    )  # fmt: skip
    made = {
        "event": messages.drop("count"),
        "change": events.where(F.col("event").isin(*CHANGES)).drop("count"),
        "seen": grouped_by(which, ["run", "peer", "event"], time="max(time)"),
        "known": grouped_by(messages, ["run", "message"], time="min(time)", event="'known'"),
        "copies": _counted(events.where("event = 'duplicate'")),
        "sent": _counted(transmissions(events).where("direction = 'send'")),
        "end": exchanged,
    }
    tables = (table.withColumn("role", F.lit(role)) for role, table in made.items())
    rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), tables)
    return rows.select(*(F.col(field.name).cast(field.dataType) for field in STATE))


def _counted(table: DataFrame) -> DataFrame:
    """Rows of each message: run, message, count."""
    return grouped_by(table.where("message IS NOT NULL"), ["run", "message"], count="count(*)")


def merged(rows: DataFrame, horizon: Horizon | None) -> DataFrame:
    """What lasts of the `rows` of some batches as one state; without `horizon` all is open."""
    rows = rows.where("role IN ('change', 'seen', 'known')")
    role, event, time = F.col("role"), F.col("event"), F.col("time")
    is_old = F.lit(False)
    if horizon is not None:
        rows = rows.where((role != "known") | (time >= horizon.known))
        is_old = time < horizon.lasting
    layer = (
        F.when(event.isin("graft", "prune"), "tree")
        .when(event.isin("stream-up", "stream-down"), "stream")
        .when(event.isin("neighbor", "node"), F.concat(event, "state"))
        .otherwise(event)
    )
    itself = F.concat_ws(" ", "file", F.col("offset").cast("string"), F.col("seq").cast("string"))
    # Of several rows in one place one stays: the latest, or the first that is known of a message.
    which = F.when(role != "change", event).when(is_old, layer).otherwise(itself)
    key = ["role", "run", "peer", "remote", "topic", "message"]
    columns = [name for name in STATE.names if name not in key]
    order = F.when(role == "known", time).otherwise(-time).alias("order")
    row = F.min(F.struct(order, "offset", *(name for name in columns if name != "offset")))
    made = rows.groupBy(*key, which.alias("which")).agg(row.alias("row"))
    return made.select(*key, *(f"row.{name}" for name in columns)).select(*STATE.names)


def events_of(recent: DataFrame, state: DataFrame, horizon: Horizon | None) -> DataFrame:
    """Events, for facts, of what is kept of some batches, and of what lasts."""
    kept = recent.where("role = 'event'")
    if horizon is not None:
        kept = kept.where(F.col("time") >= horizon.kept)
    kept = kept.unionByName(state.where("role IN ('change', 'seen')")).drop("role", "count")
    kept = kept.withColumn("late", F.lit(False))
    # What no answer of a stream asks for.
    missing = ("kind", "parts", "rtt")
    return kept.withColumns({name: F.lit(None).cast(RECORD[name].dataType) for name in missing})


def exchanges_of(recent: DataFrame, one_in: int) -> DataFrame:
    """What `facts.clocks.exchanges` gives, with one in `one_in` of them: the most of any batch."""
    kept = recent.where((F.col("role") == "end") & (F.pmod("seq", F.lit(one_in)) == 0))
    return matched(kept.selectExpr(
        "run", "peer AS sender", "remote AS receiver", "seq AS what",
        "if(event = 'send', time, NULL) AS sent", "if(event = 'recv', time, NULL) AS received",
    ))  # fmt: skip


def counts_of(recent: DataFrame, role: str, name: str) -> DataFrame:
    """What `answers.messages.copies` and `sent` give."""
    rows = recent.where(F.col("role") == role)
    return grouped_by(rows, ["run", "message"], **{name: "sum(count)"})


def forgotten(state: DataFrame, horizon: Horizon) -> DataFrame:
    """Messages that are closed, and whose publishing isn't in the state any more: run, message."""
    is_old = (F.col("role") == "known") & (F.col("time") < horizon.kept)
    return state.where(is_old).select("run", "message")
