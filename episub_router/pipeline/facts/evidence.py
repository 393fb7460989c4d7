"""What there is to judge late and lost messages by (`answers.causes`): what happened in the seconds
around them, in one table of a few kinds of rows."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.facts.clocks import corrected
from episub_router.pipeline.facts.traffic import transmissions
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import grouped_by

NEVER = -1
"""In place of a time that there isn't: a column with nulls would be one of doubles in pandas, which
haven't all the digits of times since 1970."""

_TEXTS, _TIMES = ("kind", "topic", "message", "a", "b"), ("first", "last", "since")


def starts(records: DataFrame, clocks: DataFrame) -> DataFrame:
    """When processes began to trace, by their first header: run, peer, time."""
    it = F.from_json("detail", "written long, simulated boolean")
    said = records.where("status = 'event' AND event = 'header'").withColumn("it", it)
    said = said.where("it.written = 0 AND NOT coalesce(it.simulated, false)")
    return corrected(said, clocks).select("run", "peer", "time")


def troubles(
    arrivals: DataFrame, publishes: DataFrame, subscriptions: DataFrame, params: AnswerParams
) -> DataFrame:
    """What was late or lost: run, topic, message, source, peer, published, delivered (time), since
    (when the peer had a link, where links are traced). Times are NEVER where there is none."""
    late = f"coalesce(latency > {int(params.deadline * SECOND)}, false)"
    keys = ["run", "topic", "peer"]
    links = subscriptions.selectExpr(*keys, "since AS joined", "until", "linked")
    traced = grouped_by(subscriptions, ["run", "topic"], links="count(linked)")
    return (
        arrivals.where(f"live AND NOT origin AND (NOT delivered OR {late})")
        .select(*keys, "message", "published", "latency")
        .join(publishes.select("run", "message", "source"), ["run", "message"])
        .join(links, keys)
        .where("joined <= published AND (until IS NULL OR published < until)")
        .join(F.broadcast(traced), ["run", "topic"])
        .selectExpr(
            "run", "topic", "message", "source", "peer", "published",
            f"coalesce(published + latency, {NEVER}) AS delivered",
            f"CASE WHEN links > 0 THEN coalesce(linked, {NEVER}) ELSE joined END AS since",
        )
    )  # fmt: skip


def evidence(
    events: DataFrame,
    records: DataFrame,
    contacts: DataFrame,
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
    - `sent`, `written`, `asked`: `a` sent it to `b`, its stream had taken it, or `a` asked `b` for
      it, at `first`;
    - `contact`: in a second, `b` received something of `a`, from `first` to `last`;
    - `pulse`: in a second, `a` traced something, from `first` to `last`;
    - `start`: a process of `a` began at `first`;
    - `dropped`: the tracer of `a` dropped events.
    """
    messages = F.broadcast(troubles.select("run", "message").distinct())
    runs = F.broadcast(troubles.select("run").distinct())
    traced = grouped_by(contacts, ["run"], receipts="sum(receipts) > 0")
    seconds = F.broadcast(_seconds(troubles, params).join(traced, "run"))
    near = events.withColumn("second", F.floor(F.col("time") / SECOND))
    near = near.join(seconds, ["run", "second"])
    rows = ", ".join(f"CASE WHEN {when} THEN {row} END" for row, when in _SEEN)
    said = f"inline(filter(array({rows}), one -> one IS NOT NULL))"
    seen = near.selectExpr("run", "second", "time", said)
    seen = grouped_by(
        seen, ["run", "second", "kind", "a", "b"], first="min(time)", last="max(time)"
    )
    sent = transmissions(events, "send", "written").join(messages, ["run", "message"])
    asked = (
        control.where("direction = 'send' AND asked IS NOT NULL")
        .selectExpr("run", "peer", "remote", "time", "explode(asked) AS message")
        .join(messages, ["run", "message"])
    )
    lost = F.from_json("detail", "dropped long")["dropped"]
    dropped = records.where((F.col("event") == "report") & (lost > 0)).select("run", "peer")
    return reduce(DataFrame.unionByName, (
        _rows("'trouble'", troubles, a="source", b="peer", first="published", last="delivered"),
        _rows("'delivery'", deliveries.join(messages, ["run", "message"]), a="parent", b="peer",
              first="time"),
        _rows("if(direction = 'send', 'sent', direction)", sent, a="peer", b="remote",
              first="time"),
        _rows("'asked'", asked, a="peer", b="remote", first="time"),
        _rows("kind", seen),
        _rows("'start'", started.join(runs, "run"), a="peer", first="time"),
        _rows("'dropped'", dropped.distinct().join(runs, "run"), a="peer"),
    ))  # fmt: skip


_MET = (
    "NOT receipts AND remote IS NOT NULL AND "
    "(event = 'neighbor' AND state = 'up' OR event = 'stream-up' OR rtt IS NOT NULL)"
)
_CAME = "event IN ('recv', 'deliver', 'duplicate') AND remote IS NOT NULL AND remote != peer"
_TRACED = "event NOT IN ('header', 'report')"
_SEEN = (
    ("struct('contact' AS kind, remote AS a, peer AS b)", _CAME),
    # A simulated run has no receipts of RPCs: links that come about, and round trips, say as much.
    ("struct('contact' AS kind, remote AS a, peer AS b)", _MET),
    ("struct('contact' AS kind, peer AS a, remote AS b)", _MET),
    ("struct('pulse' AS kind, peer AS a, string(null) AS b)", _TRACED),
)
"""What an event says, and when it does."""


def _seconds(troubles: DataFrame, params: AnswerParams) -> DataFrame:
    """The seconds that are looked at: run, second."""
    margin, deadline = int(params.patience), int(params.deadline + 1)
    published = troubles.select("run", F.floor(F.col("published") / SECOND).alias("at")).distinct()
    around = F.sequence(F.col("at") - margin, F.col("at") + margin + deadline)
    return published.select("run", F.explode(around).alias("second")).distinct()


def _rows(kind: str, table: DataFrame, **columns: str) -> DataFrame:
    """The rows of `table`, which are of `kind`, an expression, as evidence."""
    none = dict.fromkeys((*_TEXTS, *_TIMES), "NULL")
    of = none | {name: name for name in table.columns} | columns | {"kind": kind}
    return table.selectExpr(
        "run", *(f"string({of[name]}) AS {name}" for name in _TEXTS),
        *(f"coalesce(bigint({of[name]}), {NEVER}) AS {name}" for name in _TIMES),
    )  # fmt: skip
