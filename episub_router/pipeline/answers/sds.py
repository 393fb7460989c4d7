"""Whether SDS kept its promises: causal order, logs that converge, acknowledgements."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_LOG = ["run", "channel", "peer", "participant"]


def entries(sds: DataFrame) -> DataFrame:
    """The participants' logs: content sent and messages delivered with a Lamport time."""
    own = (F.col("action") == "send") & (F.col("purpose") == "content")
    got = (F.col("action") == "deliver") & F.col("lamport").isNotNull()
    first = F.min(F.struct("time", "offset", "lamport", "history", "lost"))
    return (
        sds.where(own | got)
        .groupBy(*_LOG, "message")
        .agg(first.alias("first"), F.max(own).alias("own"))
        .select(*_LOG, "message", "own", "first.*")
    )


def violations(entries: DataFrame) -> DataFrame:
    """The table `sds_violations`: a message delivered although one of its causal history was
    neither delivered here before, nor given up by then."""
    order = F.struct("time", "offset")
    needed = entries.where(~F.col("own")).select(
        *_LOG, "message", order.alias("at"), F.explode("history").alias("dependency")
    )
    there = entries.select(*_LOG, F.col("message").alias("dependency"), order.alias("there_at"))
    given_up = (
        entries.select(*_LOG, F.explode("lost").alias("dependency"), order.alias("at"))
        .groupBy(*_LOG, "dependency")
        .agg(F.min("at").alias("given_up_at"))
    )
    key = [*_LOG, "dependency"]
    return (
        needed.join(there, key, "left")
        .join(given_up, key, "left")
        .where(
            F.coalesce(F.col("there_at") > F.col("at"), F.lit(True))
            & F.coalesce(F.col("given_up_at") > F.col("at"), F.lit(True))
        )
        .select(*_LOG, "message", "dependency", F.col("at.time").alias("time"))
    )


def messages(sds: DataFrame, entries: DataFrame) -> DataFrame:
    """The table `sds_messages`: how each message got around, and what it took."""
    sent = entries.where("own").select(
        "run", "channel", "message", F.col("participant").alias("sender"),
        F.col("time").alias("sent"), "lamport",
    )  # fmt: skip
    there = sds.select(*_LOG).distinct().groupBy("run", "channel")
    participants = there.agg(F.count("*").alias("participants"))
    got = entries.groupBy("run", "channel", "message").agg(
        F.count("*").alias("copies"), F.max("time").alias("last")
    )
    acts = sds.groupBy("run", "channel", "message").agg(
        F.count_if((F.col("action") == "send") & (F.col("purpose") == "resend")).alias("resends"),
        F.count_if((F.col("action") == "send") & (F.col("purpose") == "repair")).alias("repairs"),
        F.min(
            F.when((F.col("action") == "ack") & (F.col("probability") == 0.0), F.col("time"))
        ).alias("acked"),
        F.count_if((F.col("action") == "ack") & (F.col("probability") > 0.0)).alias(
            "possible_acks"
        ),
        F.count_if(F.col("action") == "lost").alias("lost_at"),
        F.count_if(F.col("action") == "expired").alias("expired"),
    )
    key = ["run", "channel", "message"]
    return (
        sent.join(got, key)
        .join(acts, key, "left")
        .join(F.broadcast(participants), ["run", "channel"])
        .select(
            *key,
            "sender",
            "sent",
            "lamport",
            "copies",
            "participants",
            (F.col("copies") == F.col("participants")).alias("everywhere"),
            F.when(F.col("copies") == F.col("participants"), F.col("last") - F.col("sent")).alias(
                "everywhere_after"
            ),
            (F.col("acked") - F.col("sent")).alias("ack_latency"),
            "possible_acks",
            "resends",
            "repairs",
            "lost_at",
            (F.col("expired") > 0).alias("expired"),
        )
    )


def channels(
    sds: DataFrame, entries: DataFrame, messages: DataFrame, violations: DataFrame
) -> DataFrame:
    """The table `sds_channels`: one row per run and channel."""
    key = ["run", "channel"]
    entry = F.when(F.col("message").isNotNull(), F.struct("lamport", "message"))
    logs = (
        # Also those of participants that got nothing.
        sds.select(*_LOG)
        .distinct()
        .join(entries.select(*_LOG, "lamport", "message"), _LOG, "left")
        .groupBy(*_LOG)
        .agg(F.sort_array(F.collect_list(entry)).alias("log"))
        .select(*key, F.xxhash64(F.to_json("log.message")).alias("log"))
        .groupBy(*key)
        .agg(F.count("*").alias("participants"), F.count_distinct("log").alias("different_logs"))
    )
    figures = messages.groupBy(*key).agg(
        F.count("*").alias("messages"),
        F.count_if("everywhere").alias("everywhere"),
        F.max("everywhere_after").alias("everywhere_after_max"),
        F.avg("ack_latency").alias("ack_latency_mean"),
        F.max("ack_latency").alias("ack_latency_max"),
        F.avg("resends").alias("resends_per_message"),
        F.sum("lost_at").alias("lost"),
        F.count_if("expired").alias("expired"),
    )
    broken = violations.groupBy(*key).agg(F.count("*").alias("violations"))
    return (
        logs.join(figures, key, "left")
        .join(broken, key, "left")
        .fillna(0, ["messages", "everywhere", "lost", "expired", "violations"])
        .withColumn("converged", F.col("different_logs") == 1)
    )
