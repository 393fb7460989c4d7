"""What there is to judge late and lost messages by (`answers.causes`): what happened in the seconds
around them, in one table of a few kinds of rows."""

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.facts.clocks import corrected
from episub_router.pipeline.facts.traffic import transmissions
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import grouped_by

NEVER = -1
"""In place of a time that there isn't: a column with nulls would be one of doubles in pandas, which
haven't all the digits of times since 1970."""

MOST = 2_000_000
"""Deliveries and pairs of a run that are judged: with more, of a sample of its messages. With the
stretches of time in which two peers were in contact, a few for each link, this is what one process
holds of a run."""

_TEXTS, _TIMES = ("kind", "topic", "message", "a", "b"), ("first", "last", "since")


def starts(records: DataFrame, clocks: DataFrame) -> DataFrame:
    """When processes began to trace, by their first header: run, peer, time."""
    it = F.from_json("detail", "written long, simulated boolean")
    said = records.where("status = 'event' AND event = 'header'").withColumn("it", it)
    said = said.where("it.written = 0 AND NOT coalesce(it.simulated, false)")
    return corrected(said, clocks).select("run", "peer", "time")


def troubles(
    arrivals: DataFrame,
    publishes: DataFrame,
    subscriptions: DataFrame,
    deliveries: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """What was late or lost: run, topic, message, source, peer, published, delivered (time), since
    (when the peer had a link, where links are traced), judged (whether its message is one of those
    that are). Times are NEVER where there is none."""
    late = f"coalesce(latency > {int(params.deadline * SECOND)}, false)"
    keys = ["run", "topic", "peer"]
    links = subscriptions.selectExpr(*keys, "since AS joined", "until", "linked")
    traced = grouped_by(subscriptions, ["run", "topic"], links="count(linked)")
    found = (
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
    return _sampled(found, deliveries)


def _sampled(found: DataFrame, deliveries: DataFrame) -> DataFrame:
    messages = F.broadcast(found.select("run", "message").distinct())
    of_them = deliveries.join(messages, ["run", "message"]).select("run")
    sizes = grouped_by(of_them.unionByName(found.select("run")), ["run"], size="count(*)")
    is_judged = F.pmod(F.xxhash64("message"), F.ceil(F.col("size") / MOST)) == 0
    return found.join(F.broadcast(sizes), "run").withColumn("judged", is_judged).drop("size")


def evidence(
    events: DataFrame,
    records: DataFrame,
    contacts: DataFrame,
    spans: DataFrame,
    troubles: DataFrame,
    deliveries: DataFrame,
    control: DataFrame,
    starts: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """One row per thing that is known, of runs with `troubles`: run, kind, topic, message, a, b,
    first, last, since. Kinds:

    - `trouble`: a pair of message and peer `b`, published by `a` at `first`, delivered at `last`;
    - `delivery`: `b` had the message from `a` at `first`;
    - `sent`, `written`, `drop`, `asked`: `a` sent it to `b`, its stream had taken it, its queue
      was full, or `b` asked `a` for it, at `first`;
    - `contact`: from `first` to `last`, `b` received something of `a` in `since` slices, without a
      pause;
    - `pulse`: from `first` to `last`, `a` traced something in `since` slices, without a pause;
    - `start`: a process of `a` began at `first`;
    - `dropped`: the tracer of `a` dropped events;
    - `sends`: what is sent is traced.
    """
    troubles = troubles.where("judged")
    messages = F.broadcast(troubles.select("run", "message").distinct())
    of_pair = ["run", "message", "remote"]
    pairs = troubles.withColumnRenamed("peer", "remote").select(*of_pair), of_pair, "left_semi"
    of_runs = (
        grouped_by(contacts, ["run"], received="sum(receipts) > 0", sent="sum(sends) > 0")
        .join(spans.selectExpr("run", "`end` AS over"), "run")
        .join(troubles.select("run").distinct(), "run", "left_semi")
    )
    # Few rows, asked for five times.
    runs = F.broadcast(troubles.sparkSession.createDataFrame(of_runs.collect(), of_runs.schema))
    rows = ", ".join(
        f"CASE WHEN {when} THEN struct('{kind}' AS kind, {a} AS a, {b} AS b, {first} AS begin, "
        f"{last} AS last) END"
        for kind, a, b, first, last, when in _SEEN
    )
    seen = contacts.join(runs, "run").selectExpr(
        "run", "slice", "over", f"inline(filter(array({rows}), one -> one IS NOT NULL))"
    )
    seen = grouped_by(
        seen.where("last <= over"), ["run", "slice", "kind", "a", "b"], begin="min(begin)",
        last="max(last)",
    ).withColumn("fresh", F.lit(False))  # fmt: skip
    started = starts.join(runs, "run")
    began = started.selectExpr(
        "run", "0L AS slice", "'pulse' AS kind", "peer AS a", "string(null) AS b", "time AS begin",
        "time AS last", "true AS fresh",
    )  # fmt: skip
    sent = transmissions(events, "send", "written", "drop")
    asked = control.where("direction = 'send' AND asked IS NOT NULL").selectExpr(
        "run", "peer AS remote", "remote AS peer", "time", "explode(asked) AS message"
    )
    lost = F.from_json("detail", "dropped long")["dropped"]
    dropped = records.where((F.col("event") == "report") & (lost > 0)).select("run", "peer")
    return reduce(DataFrame.unionByName, (
        _rows("'trouble'", troubles, a="source", b="peer", first="published", last="delivered"),
        _rows("'delivery'", deliveries.join(messages, ["run", "message"]), a="parent", b="peer",
              first="time"),
        _rows("if(direction = 'send', 'sent', direction)", sent.join(*pairs), a="peer",
              b="remote", first="time"),
        _rows("'asked'", asked.join(*pairs), a="peer", b="remote", first="time"),
        _rows("kind", _unbroken(seen.unionByName(began), params)),
        _rows("'start'", started, a="peer", first="time"),
        _rows("'dropped'", dropped.distinct().join(runs, "run"), a="peer"),
        _rows("'sends'", runs.where("sent")),
    ))  # fmt: skip


_SEEN = (
    ("contact", "remote", "peer", "heard", "heard_last", "heard IS NOT NULL"),
    # A simulated run has no receipts of RPCs: links that come about, and round trips, say as much.
    ("contact", "remote", "peer", "met", "met_last", "NOT received AND met IS NOT NULL"),
    ("contact", "peer", "remote", "met", "met_last", "NOT received AND met IS NOT NULL"),
    ("pulse", "peer", "string(null)", "begin", "`end`", "count > 0"),
)
"""What a row of `contacts` says, and when it does: kind, a, b, from when to when."""


def _unbroken(seen: DataFrame, params: AnswerParams) -> DataFrame:
    """Rows of `seen` that no pause is between, and no start of a process (`fresh`), as one."""
    order = Window.partitionBy("run", "kind", "a", "b").orderBy("begin")
    earlier = F.max("last").over(order.rowsBetween(Window.unboundedPreceding, -1))
    is_new = F.coalesce(F.expr("fresh") | (F.col("begin") - earlier > params.slice), F.lit(False))
    numbered = seen.withColumn("is_new", is_new.cast("long"))
    numbered = numbered.withColumn("number", F.sum("is_new").over(order))
    return grouped_by(
        numbered, ["run", "kind", "a", "b", "number"], first="min(begin)", last="max(last)",
        since="count(*)",
    )  # fmt: skip


def _rows(kind: str, table: DataFrame, **columns: str) -> DataFrame:
    """The rows of `table`, which are of `kind`, an expression, as evidence."""
    none = dict.fromkeys((*_TEXTS, *_TIMES), "NULL")
    of = none | {name: name for name in table.columns} | columns | {"kind": kind}
    return table.selectExpr(
        "run", *(f"string({of[name]}) AS {name}" for name in _TEXTS),
        *(f"coalesce(bigint({of[name]}), {NEVER}) AS {name}" for name in _TIMES),
    )  # fmt: skip
