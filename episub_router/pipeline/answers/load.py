"""What it cost, and which peers bore it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.beside import beside
from episub_router.pipeline.answers.spread import by_window
from episub_router.pipeline.params import AnswerParams


def control(control: DataFrame, deliveries: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `control`: control messages sent, by kind, and per delivery in the same window."""
    sent = by_window(control.where(F.col("direction") == "send"), "time", params)
    table = sent.groupBy("run", "window", "kind").agg(
        F.count("*").alias("sends"),
        F.sum("ids").alias("ids"),
        # Of some traces only, it would be too little for what all delivered.
        F.when(F.count("bytes") == F.count("*"), F.sum("bytes")).alias("bytes"),
    )
    came = by_window(deliveries.where(~F.col("origin")), "time", params)
    counted = came.groupBy("run", "window").agg(F.count("*").alias("deliveries"))
    same = (table["run"] == counted["run"]) & table["window"].eqNullSafe(counted["window"])
    count = F.col("deliveries")
    return table.join(F.broadcast(counted), same, "left").select(
        *(table[name] for name in table.columns),
        (F.col("sends") / count).alias("sends_per_delivery"),
        (F.col("ids") / count).alias("ids_per_delivery"),
        (F.col("bytes") / count).alias("bytes_per_delivery"),
    )


def load(totals: DataFrame, deliveries: DataFrame) -> DataFrame:
    """The table `load`: what each peer sent and received; of a peer whose own trace isn't there,
    only what others got from it (`children`)."""
    of_peers = totals.where(F.col("peer").isNotNull())
    table = of_peers.groupBy("run", "peer").agg(
        *(
            F.sum(F.when(F.col("direction") == direction, F.col(column))).alias(f"{said}_{column}")
            for direction, said in (("send", "sent"), ("recv", "received"))
            for column in ("messages", "control", "size", "payload", "rpcs")
        ),
    )
    relayed = deliveries.where(F.col("parent").isNotNull()).groupBy(
        "run", F.col("parent").alias("peer")
    )
    children = relayed.agg(F.count("*").alias("children"))
    got = deliveries.groupBy("run", "peer").agg(F.count("*").alias("deliveries"))
    table = beside(("run", "peer"), table, children, got)
    # Bytes stay null where no trace has them.
    counts = ("sent_messages", "received_messages", "sent_control", "received_control")
    table = table.fillna(0, [*counts, "sent_rpcs", "received_rpcs", "children", "deliveries"])
    return table.withColumnsRenamed(
        {
            "sent_size": "sent_bytes",
            "received_size": "received_bytes",
            "sent_payload": "sent_payload_bytes",
            "received_payload": "received_payload_bytes",
        }
    )


def is_traced() -> Column:
    """Whether a peer of `load` has a trace of its own."""
    return F.col("sent_rpcs") + F.col("received_rpcs") + F.col("deliveries") > 0


def balance(load: DataFrame) -> DataFrame:
    """The table `balance`: the Gini coefficient of each figure of `load`, over the peers whose
    trace has RPCs or deliveries."""
    measured = [name for name in load.columns if name not in ("run", "peer")]
    long = (
        load.where(is_traced())
        .select(
            "run",
            F.explode(
                F.create_map(
                    *(
                        part
                        for name in measured
                        for part in (F.lit(name), F.col(name).cast("double"))
                    )
                )
            ).alias("figure", "value"),
        )
        .where(F.col("value").isNotNull())
    )
    key = Window.partitionBy("run", "figure")
    ranked = long.withColumn("rank", F.row_number().over(key.orderBy("value")))
    count, total = F.count("*"), F.sum("value")
    return ranked.groupBy("run", "figure").agg(
        count.alias("peers"),
        F.avg("value").alias("mean"),
        F.max("value").alias("max"),
        _gini(count, total).alias("gini"),
    )


def _gini(count: Column, total: Column) -> Column:
    weighted = F.sum(F.col("rank") * F.col("value"))
    return F.when(total > 0, 2 * weighted / (count * total) - (count + 1) / count).otherwise(0.0)


def losses(losses: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `losses`: rejects, drops and discards by reason."""
    return (
        by_window(losses, "time", params)
        .groupBy("run", "topic", "window", "kind", "reason")
        .agg(F.sum("count").alias("count"))
    )
