"""RPCs, and what was in them."""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.sql import grouped_by

_END = ("run", "direction", "peer", "remote", "time")


_DIRECTIONS = "send", "recv", "drop"


def _ends(events: DataFrame, directions: Sequence[str] = _DIRECTIONS) -> DataFrame:
    """RPCs at either end."""
    chosen = events.where(F.col("event").isin(*directions))
    return chosen.withColumnRenamed("event", "direction")


def rpcs(events: DataFrame, *more: Column) -> DataFrame:
    """One row per RPC and end: run, direction (send, recv, drop), peer, remote, time, topic, size
    and payload (bytes; null where untraced), messages, control, subscriptions (parts of each), and
    `more`."""
    return _ends(events).select(
        *_END, "topic", "size", "payload", _count(_is_message).alias("messages"),
        _count(_is_control).alias("control"), _count(_is_subscription).alias("subscriptions"),
        *more,
    )  # fmt: skip


def transmissions(events: DataFrame, *directions: str) -> DataFrame:
    """One row per message in an RPC and end: run, direction, peer, remote, time, topic, message.
    `written`, beside the usual directions, is when the sender's stream had taken the RPC."""
    return _parts(_ends(events, directions or _DIRECTIONS), _is_message).selectExpr(
        *_END, "part.topic", "part.messages[0] AS message"
    )


def totals(traced: DataFrame) -> DataFrame:
    """What was sent and received, of which nothing larger than these sums is asked. By peer, with
    `message` null: run, direction, peer, rpcs, and of all of them messages, control (parts), size
    and payload (bytes; null where untraced). By message, with `peer` null: run, direction,
    message, messages."""
    messages = F.transform(
        F.filter("parts", _is_message), lambda part: F.get(part["messages"], F.lit(0))
    )
    # A row for the RPC, then one for each message in it.
    named = F.concat(F.array(F.lit(None).cast("string")), F.coalesce(messages, F.array()))
    figures = ("messages", "control", "size", "payload")
    rows = rpcs(traced, named.alias("named")).select(
        "run", "direction", "peer", *figures, F.posexplode("named").alias("place", "message")
    )
    rows = rows.selectExpr(
        "run", "direction", "CASE WHEN place = 0 THEN peer END AS peer", "message",
        "place = 0 AS is_rpc", *figures,
    )  # fmt: skip
    sums = {name: f"CASE WHEN is_rpc THEN sum({name}) END" for name in figures[1:]}
    return grouped_by(
        rows, ["run", "direction", "peer", "message", "is_rpc"],
        rpcs="CASE WHEN is_rpc THEN count(*) END",
        messages="CASE WHEN is_rpc THEN sum(messages) ELSE count(*) END", **sums,
    ).drop("is_rpc")  # fmt: skip


def control(events: DataFrame) -> DataFrame:
    """One row per control message in an RPC and end: run, direction, peer, remote, time, topic,
    kind, ids (messages that it names), bytes, asked (ids of the messages that it requests; null of
    kinds that request none).

    Bytes are those of the RPC without its payload, in equal shares for the control messages in it;
    null where no sizes are traced.
    """
    # Of RPCs without control messages, it is of none.
    share = F.try_divide(F.col("size") - F.coalesce("payload", F.lit(0)), _count(_is_control))
    return _parts(_ends(events), _is_control, share.alias("bytes")).selectExpr(
        *_END, "part.topic", "part.kind",
        # Of a null, the size is less than nothing on some engines.
        "CASE WHEN part.messages IS NULL THEN 0 ELSE size(part.messages) END AS ids", "bytes",
        "CASE WHEN part.kind IN ('iwant', 'graft') THEN part.messages END AS asked",
    )  # fmt: skip


def rtts(events: DataFrame) -> DataFrame:
    """Round trips: run, peer, remote, time, rtt (ns)."""
    return events.where("rtt IS NOT NULL").select("run", "peer", "remote", "time", "rtt")


def losses(events: DataFrame) -> DataFrame:
    """What was refused or not sent: run, kind (reject, drop, discard), peer, remote, time, topic,
    reason, count."""
    return events.where("event IN ('reject', 'drop', 'discard')").selectExpr(
        "run", "event AS kind", "peer", "remote", "time", "topic",
        "coalesce(reason, '') AS reason", "coalesce(count, 1) AS count",
    )  # fmt: skip


def _parts(ends: DataFrame, predicate: Callable[[Column], Column], *more: Column) -> DataFrame:
    """One row per part of an RPC that `predicate` chooses: `_END`, part, and `more` of the RPC."""
    chosen = ends.select(*_END, F.filter("parts", predicate).alias("chosen"), *more)
    return chosen.withColumn("part", F.explode("chosen")).drop("chosen")


def _count(predicate: Callable[[Column], Column]) -> Column:
    return F.coalesce(F.size(F.filter("parts", predicate)), F.lit(0))


def _is_message(part: Column) -> Column:
    return part["kind"] == "message"


def _is_subscription(part: Column) -> Column:
    return part["kind"].isin("subscribe", "unsubscribe")


def _is_control(part: Column) -> Column:
    return ~part["kind"].isin("message", "subscribe", "unsubscribe")
