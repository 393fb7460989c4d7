"""Whether SDS kept its promises: causal order, logs that converge, acknowledgements."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.sql import grouped_by

_CHANNEL = ["run", "channel"]
_LOG = [*_CHANNEL, "peer", "participant"]


def happened(events: DataFrame) -> DataFrame:
    """The table `sds`: one row per SDS event."""
    found = events.where("event = 'sds'")
    return found.select("run", "topic", "peer", "time", "offset", "size", "sds.*")


def entries(sds: DataFrame) -> DataFrame:
    """The participants' logs: content sent and messages delivered with a Lamport time."""
    own = "action = 'send' AND purpose = 'content'"
    kept = sds.withColumn("own", F.expr(own)).where(
        "own OR action = 'deliver' AND lamport IS NOT NULL"
    )
    first = "min(struct(time, offset, lamport, history, lost))"
    made = grouped_by(kept, [*_LOG, "message"], first=first, own="max(own)")
    return made.select(*_LOG, "message", "own", "first.*")


def violations(sds_entries: DataFrame) -> DataFrame:
    """The table `sds_violations`: a message delivered although one of its causal history was
    neither delivered here before, nor given up by then."""
    key = [*_LOG, "dependency"]
    order = "struct(time, offset)"
    needed = sds_entries.where("NOT own").selectExpr(
        *_LOG, "message", f"{order} AS at", "explode(history) AS dependency"
    )
    there = sds_entries.selectExpr(*_LOG, "message AS dependency", f"{order} AS there_at")
    lost = sds_entries.selectExpr(*_LOG, "explode(lost) AS dependency", f"{order} AS at")
    return (
        needed.join(there, key, "left")
        .join(grouped_by(lost, key, given_up_at="min(at)"), key, "left")
        .where("coalesce(there_at > at, true) AND coalesce(given_up_at > at, true)")
        .selectExpr(*_LOG, "message", "dependency", "at.time AS time")
    )


def messages(sds: DataFrame, sds_entries: DataFrame) -> DataFrame:
    """The table `sds_messages`: how each message got around, and what it took."""
    key = [*_CHANNEL, "message"]
    sent = sds_entries.where("own").selectExpr(
        *key, "participant AS sender", "time AS sent", "lamport"
    )
    there = sds.select(*_LOG).distinct()
    participants = grouped_by(there, _CHANNEL, participants="count(*)")
    got = grouped_by(sds_entries, key, copies="count(*)", last="max(time)")
    acts = grouped_by(
        sds, key, resends="count_if(action = 'send' AND purpose = 'resend')",
        repairs="count_if(action = 'send' AND purpose = 'repair')",
        acked="min(CASE WHEN action = 'ack' AND probability = 0 THEN time END)",
        lost_at="count_if(action = 'lost')", expired="max(action = 'expired')",
    )  # fmt: skip
    return (
        sent.join(got, key)
        .join(acts, key, "left")
        .join(F.broadcast(participants), _CHANNEL)
        .withColumn("everywhere", F.col("copies") == F.col("participants"))
        .selectExpr(
            *key, "sender", "sent", "lamport", "copies", "participants", "everywhere",
            "CASE WHEN everywhere THEN last - sent END AS everywhere_after",
            "acked - sent AS ack_latency", "resends", "repairs", "lost_at",
            "expired",
        )
    )  # fmt: skip


def channels(
    sds: DataFrame, sds_entries: DataFrame, sds_messages: DataFrame, sds_violations: DataFrame
) -> DataFrame:
    """The table `sds_channels`: one row per run and channel."""
    # Also those of participants that got nothing.
    of_all = sds.select(*_LOG).distinct().join(sds_entries, _LOG, "left")
    entry = "CASE WHEN message IS NOT NULL THEN struct(lamport, message) END"
    logs = grouped_by(of_all, _LOG, log=f"sort_array(collect_list({entry}))")
    logs = logs.select(*_CHANNEL, F.xxhash64(F.to_json("log.message")).alias("log"))
    figures = grouped_by(
        sds_messages, _CHANNEL, messages="count(*)", everywhere="count_if(everywhere)",
        ack_latency_mean="avg(ack_latency)", resends_per_message="avg(resends)",
        lost="sum(lost_at)", expired="count_if(expired)",
    )  # fmt: skip
    counted = grouped_by(
        logs, _CHANNEL, participants="count(*)", different_logs="count(DISTINCT log)"
    )
    return (
        counted.join(figures, _CHANNEL, "left")
        .join(grouped_by(sds_violations, _CHANNEL, violations="count(*)"), _CHANNEL, "left")
        .fillna(0, ["messages", "everywhere", "lost", "expired", "violations"])
        .withColumn("converged", F.col("different_logs") == 1)
    )
