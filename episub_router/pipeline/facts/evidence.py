"""What there is to judge late and lost messages by (`answers.causes`): what happened in the seconds
around them, in one table of a few kinds of rows."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.facts.traffic import transmissions
from episub_router.pipeline.params import SECOND, AnswerParams

NEVER = -1
"""In place of a time that there isn't: a column with nulls would be one of doubles in pandas, which
haven't all the digits of times since 1970."""

_COLUMNS = ("kind", "topic", "message", "a", "b", "first", "last", "since")


def starts(records: DataFrame, clocks: DataFrame) -> DataFrame:
    """When processes began to trace, by their first header: run, peer, time."""
    it = F.from_json("detail", "written long, simulated boolean")
    headers = records.where((F.col("status") == "event") & (F.col("event") == "header"))
    said = headers.select("run", "peer", "time", it.alias("it")).where(
        (F.col("it.written") == 0) & ~F.coalesce("it.simulated", F.lit(False))
    )
    wrong = clocks.select("run", "peer", "correction")
    return said.join(F.broadcast(wrong), ["run", "peer"], "left").select(
        "run", "peer", (F.col("time") - F.coalesce("correction", F.lit(0))).alias("time")
    )


def troubles(
    arrivals: DataFrame, publishes: DataFrame, subscriptions: DataFrame, params: AnswerParams
) -> DataFrame:
    """What was late or lost: run, topic, message, source, peer, published, delivered (time), since
    (when the peer had a link, where links are traced). Times are NEVER where there is none."""
    late = F.coalesce(F.col("latency") > int(params.deadline * SECOND), F.lit(False))
    wrong = F.col("live") & ~F.col("origin") & (~F.col("delivered") | late)
    keys = ["run", "topic", "peer"]
    links = subscriptions.select(*keys, F.col("since").alias("joined"), "until", "linked")
    traced = subscriptions.groupBy("run", "topic").agg(F.count("linked").alias("links"))
    there = (F.col("joined") <= F.col("published")) & (
        F.col("until").isNull() | (F.col("published") < F.col("until"))
    )
    sources = publishes.select("run", "message", "source")
    since = F.when(F.col("links") > 0, F.coalesce("linked", F.lit(NEVER))).otherwise(
        F.col("joined")
    )
    return (
        arrivals.where(wrong)
        .select(*keys, "message", "published", "latency")
        .join(sources, ["run", "message"])
        .join(links, keys)
        .where(there)
        .join(F.broadcast(traced), ["run", "topic"])
        .select(
            "run", "topic", "message", "source", "peer", "published",
            F.coalesce(F.col("published") + F.col("latency"), F.lit(NEVER)).alias("delivered"),
            since.alias("since"),
        )
    )  # fmt: skip


def evidence(
    events: DataFrame,
    records: DataFrame,
    troubles: DataFrame,
    deliveries: DataFrame,
    control: DataFrame,
    started: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """One row per thing that is known, of runs with `troubles`: run, kind, topic, message, a, b,
    first, last, since. Kinds:

    - `trouble`: a pair of message and peer `b`, published by `a` at `first`, delivered at `last`;
    - `delivery`: `b` had the message from `a` at `first`;
    - `sent`, `asked`: `a` sent it to `b`, or asked `b` for it, at `first`;
    - `contact`: in a second, `b` received something of `a`, from `first` to `last`;
    - `pulse`: in a second, `a` traced something, from `first` to `last`;
    - `start`: a process of `a` began at `first`;
    - `dropped`: the tracer of `a` dropped events.
    """
    messages = F.broadcast(troubles.select("run", "message").distinct())
    seconds = F.broadcast(_seconds(troubles, params))
    second = F.floor(F.col("time") / SECOND)
    near = events.withColumn("second", second).join(seconds, ["run", "second"])
    received = near.where(_is_receipt()).select("run", "second", "time", "remote", "peer")
    # A simulated run has no receipts of RPCs: links that come about, and round trips, say as much.
    met = near.where(_is_meeting()).select("run", "second", "time", "remote", "peer")
    traced = events.where(F.col("event") == "recv").select("run").distinct()
    met = met.join(F.broadcast(traced), "run", "anti")
    back = met.select(
        "run", "second", "time", F.col("peer").alias("remote"), F.col("remote").alias("peer")
    )
    contacts = (
        received.unionByName(met).unionByName(back).groupBy("run", "second", "remote", "peer")
    )
    pulses = near.where(~F.col("event").isin("header", "report")).groupBy("run", "second", "peer")
    extent = F.min("time").alias("first"), F.max("time").alias("last")
    sent = (
        transmissions(events).where(F.col("direction") == "send").join(messages, ["run", "message"])
    )
    asked = (
        control.where((F.col("direction") == "send") & F.col("asked").isNotNull())
        .select("run", "peer", "remote", "time", F.explode("asked").alias("message"))
        .join(messages, ["run", "message"])
    )
    troubled = F.broadcast(troubles.select("run").distinct())
    said = F.from_json("detail", "dropped long")["dropped"]
    dropped = (
        records.where((F.col("event") == "report") & (said > 0)).select("run", "peer").distinct()
    )
    rows = (
        _rows("trouble", troubles, a="source", b="peer", first="published", last="delivered"),
        _rows(
            "delivery",
            deliveries.join(messages, ["run", "message"]),
            a="parent",
            b="peer",
            first="time",
        ),
        _rows("sent", sent, a="peer", b="remote", first="time"),
        _rows("asked", asked, a="peer", b="remote", first="time"),
        _rows("contact", contacts.agg(*extent), a="remote", b="peer"),
        _rows("pulse", pulses.agg(*extent), a="peer"),
        _rows("start", started.join(troubled, "run"), a="peer", first="time"),
        _rows("dropped", dropped.join(troubled, "run"), a="peer"),
    )
    return reduce(DataFrame.unionByName, rows)


def _seconds(troubles: DataFrame, params: AnswerParams) -> DataFrame:
    """The seconds that are looked at: run, second."""
    margin, deadline = int(params.patience), int(params.deadline + 1)
    published = troubles.select("run", F.floor(F.col("published") / SECOND).alias("at")).distinct()
    around = F.sequence(F.col("at") - margin, F.col("at") + margin + deadline)
    return published.select("run", F.explode(around).alias("second")).distinct()


def _is_receipt() -> Column:
    received = F.col("event").isin("recv", "deliver", "duplicate")
    return received & F.col("remote").isNotNull() & (F.col("remote") != F.col("peer"))


def _is_meeting() -> Column:
    event = F.col("event")
    up = (event == "neighbor") & (F.col("state") == "up")
    return (up | (event == "stream-up") | F.col("rtt").isNotNull()) & F.col("remote").isNotNull()


def _rows(kind: str, table: DataFrame, **columns: str) -> DataFrame:
    there = {name: name for name in _COLUMNS if name in table.columns} | columns
    types = dict.fromkeys(_COLUMNS, "string") | dict.fromkeys(("first", "last", "since"), "long")
    made = {name: F.col(there[name]) if name in there else F.lit(None) for name in _COLUMNS[1:]}
    times = {name: F.coalesce(made[name], F.lit(NEVER)) for name in ("first", "last", "since")}
    return table.select(
        "run", F.lit(kind).alias("kind"),
        *(column.cast(types[name]).alias(name) for name, column in (made | times).items()),
    )  # fmt: skip
