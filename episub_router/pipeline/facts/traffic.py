"""RPCs, and what was in them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_RPC = ("send", "recv", "drop")
_END = ("run", "direction", "peer", "remote", "time")


def rpcs(events: DataFrame, *more: Column) -> DataFrame:
    """One row per RPC and end: run, direction (send, recv, drop), peer, remote, time, topic, size
    and payload (bytes; null where untraced), messages, control, subscriptions (parts of each), and
    `more`."""
    return events.where(F.col("event").isin(*_RPC)).select(
        "run",
        F.col("event").alias("direction"),
        "peer",
        "remote",
        "time",
        "topic",
        "size",
        "payload",
        _count(_is_message).alias("messages"),
        _count(_is_control).alias("control"),
        _count(_is_subscription).alias("subscriptions"),
        *more,
    )


def transmissions(events: DataFrame) -> DataFrame:
    """One row per message in an RPC and end: run, direction, peer, remote, time, topic, message."""
    return _parts(events, _is_message).select(
        *_END, "part.topic", F.col("part.messages")[0].alias("message")
    )


def totals(events: DataFrame) -> DataFrame:
    """What was sent and received, of which nothing larger than these sums is asked. By peer, with
    `message` null: run, direction, peer, rpcs, and of all of them messages, control (parts), size
    and payload (bytes; null where untraced). By message, with `peer` null: run, direction,
    message, messages."""
    messages = F.transform(
        F.filter("parts", _is_message), lambda part: F.get(part["messages"], F.lit(0))
    )
    # A row for the RPC, then one for each message in it.
    named = F.concat(F.array(F.lit(None).cast("string")), F.coalesce(messages, F.array()))
    rows = rpcs(events, named.alias("named"))
    figures = ("messages", "control", "size", "payload")
    rows = rows.select(
        "run", "direction", "peer", *figures, F.posexplode("named").alias("place", "message")
    )
    is_rpc = F.col("place") == 0
    return (
        rows.groupBy(
            "run", "direction", F.when(is_rpc, F.col("peer")).alias("peer"), "message",
            is_rpc.alias("is_rpc"),
        )
        .agg(
            F.count("*").alias("rpcs"),
            *(F.sum(name).alias(name) for name in figures),
        )
        .select(
            "run", "direction", "peer", "message",
            F.when(F.col("is_rpc"), F.col("rpcs")).alias("rpcs"),
            F.when(F.col("is_rpc"), F.col("messages")).otherwise(F.col("rpcs")).alias("messages"),
            *(F.when(F.col("is_rpc"), F.col(name)).alias(name) for name in figures[1:]),
        )
    )  # fmt: skip


def control(events: DataFrame) -> DataFrame:
    """One row per control message in an RPC and end: run, direction, peer, remote, time, topic,
    kind, ids (messages that it names), bytes, asked (ids of the messages that it requests; null of
    kinds that request none).

    Bytes are those of the RPC without its payload, in equal shares for the control messages in it;
    null where no sizes are traced.
    """
    # Of RPCs without control messages, it is of none.
    share = F.try_divide(F.col("size") - F.coalesce("payload", F.lit(0)), _count(_is_control))
    return _parts(events, _is_control, share.alias("bytes")).select(
        *_END,
        "part.topic",
        "part.kind",
        F.coalesce(F.size("part.messages"), F.lit(0)).alias("ids"),
        "bytes",
        F.when(F.col("part.kind").isin("iwant", "graft"), F.col("part.messages")).alias("asked"),
    )


def is_round_trip() -> Column:
    """Whether an event measured one."""
    return F.col("rtt").isNotNull()


def rtts(events: DataFrame) -> DataFrame:
    """Round trips: run, peer, remote, time, rtt (ns)."""
    return events.where(is_round_trip()).select("run", "peer", "remote", "time", "rtt")


def is_loss() -> Column:
    """Whether something was refused or not sent."""
    return F.col("event").isin("reject", "drop", "discard")


def losses(events: DataFrame) -> DataFrame:
    """What was refused or not sent: run, kind (reject, drop, discard), peer, remote, time, topic,
    reason, count."""
    return events.where(is_loss()).select(
        "run",
        F.col("event").alias("kind"),
        "peer",
        "remote",
        "time",
        "topic",
        F.coalesce("reason", F.lit("")).alias("reason"),
        F.coalesce("count", F.lit(1)).alias("count"),
    )


def _parts(events: DataFrame, predicate: Callable[[Column], Column], *more: Column) -> DataFrame:
    """One row per part of an RPC that `predicate` chooses: `_END`, part, and `more` of the RPC."""
    rpcs = events.where(F.col("event").isin(*_RPC))
    chosen = rpcs.withColumnRenamed("event", "direction").select(
        *_END, F.filter("parts", predicate).alias("chosen"), *more
    )
    return chosen.withColumn("part", F.explode("chosen")).drop("chosen")


def _count(predicate: Callable[[Column], Column]) -> Column:
    return F.coalesce(F.size(F.filter("parts", predicate)), F.lit(0))


def _is_message(part: Column) -> Column:
    return part["kind"] == "message"


def _is_subscription(part: Column) -> Column:
    return part["kind"].isin("subscribe", "unsubscribe")


def _is_control(part: Column) -> Column:
    return ~part["kind"].isin("message", "subscribe", "unsubscribe")
