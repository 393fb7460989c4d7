"""Which peer was to get which message, and whether it came."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams


def arrivals(
    publishes: DataFrame, deliveries: DataFrame, subscriptions: DataFrame, params: AnswerParams
) -> DataFrame:
    """One row per message and peer that was to get it: run, topic, message, peer, published,
    delivered, live, ending, latency, hops, parent, origin.

    A peer is to get a message if it was subscribed when that was published, and had been linked
    by then or subscribed for `patience`. The publisher has it whether or not its trace says so. Of
    the others, a peer that left or crashed within `patience` without it isn't `live`: nobody could
    have served it. The same rules as the simulator's (`sim.metrics.accounting`), so that both
    count the same.
    """
    patience = int(params.patience * SECOND)
    peers = subscriptions.selectExpr(
        "run", "topic", "peer", "until", "ending",
        f"CASE WHEN inferred THEN since ELSE least(linked, since + {patience}) END AS ready",
    )  # fmt: skip
    messages = publishes.selectExpr("run", "topic", "message", "source", "time AS published")
    got = deliveries.selectExpr(
        "run", "message", "peer", "latency", "hops", "parent", "origin", "true AS came"
    )
    return (
        peers.join(F.broadcast(messages), ["run", "topic"])
        .where("ready <= published AND (until IS NULL OR published < until)")
        .join(got, ["run", "message", "peer"], "left")
        .withColumn("delivered", F.expr("came IS NOT NULL OR peer = source"))
        .withColumn("zero", F.expr("CASE WHEN peer = source THEN 0 END"))
        .selectExpr(
            "run", "topic", "message", "peer", "published", "delivered",
            f"delivered OR until IS NULL OR until > published + {patience} AS live", "ending",
            "coalesce(latency, zero) AS latency", "coalesce(hops, zero) AS hops", "parent",
            "coalesce(origin, peer = source) AS origin",
        )
    )  # fmt: skip
