"""How each message spread: one row per message."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.beside import beside

QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
SHARES = {"t50": 0.50, "t90": 0.90, "t99": 0.99, "t100": 1.0}

_MESSAGE = ("run", "message")

_COLUMNS = (
    *_MESSAGE, "topic", "source", "published", "size", "inferred", "index", "live", "delivered",
    "deliveries", "negative_latencies", "unknown_latencies", "ldh", "mean_hops", "latency_mean",
    *(f"latency_{name}" for name in QUANTILES), "latency_max", *SHARES, "receivers", "payloads",
    "duplicates", "fan_out_max", "leaves",
)  # fmt: skip


def messages(
    publishes: DataFrame,
    deliveries: DataFrame,
    copies: DataFrame,
    sent: DataFrame,
    arrivals: DataFrame,
) -> DataFrame:
    """The table `messages` of docs/pipeline.md; `copies` and `sent` are what the functions of these
    names give."""
    order = Window.partitionBy("run", "topic").orderBy("time", "message")
    numbered = publishes.drop("correction").withColumn("index", F.row_number().over(order) - 1)
    numbered = numbered.withColumnRenamed("time", "published")
    figures = beside(
        _MESSAGE, _reach(arrivals), _receipts(deliveries), copies, sent, _fan_out(arrivals),
        _edges(numbered, deliveries),
    )  # fmt: skip
    traced = sent.select("run").distinct().withColumn("sends_traced", F.lit(True))
    # New columns, since the edges are numbered by the same table.
    table = numbered.join(figures.toDF(*figures.columns), list(_MESSAGE), "left")
    table = table.join(F.broadcast(traced), "run", "left")
    counts = ("live", "delivered", "deliveries", "came", "sent", "duplicates", "edges", "kept")
    # A peer from which no other got it has it.
    table = table.fillna(1, ["receivers"]).fillna(
        0, [*counts, "negative_latencies", "unknown_latencies", "fan_out_max", "ldh"]
    )
    return _judged(table)


def _judged(table: DataFrame) -> DataFrame:
    """`messages` from what was counted of each."""
    # As many as were sent, in runs that trace sends, else as many as came in.
    came = F.col("came") + F.col("duplicates")
    payloads = F.when(F.col("sends_traced"), F.col("sent")).otherwise(came)
    receivers, live = F.col("receivers"), F.col("live")
    order = Window.partitionBy("run", "topic").orderBy("index")
    union = F.col("edges") + F.lag("edges").over(order) - F.col("kept")
    return table.withColumn("payloads", payloads).select(
        *_COLUMNS,
        F.when(live > 0, F.col("delivered") / live).otherwise(1.0).alias("reliability"),
        F.when(receivers > 1, F.col("payloads") / (receivers - 1) - 1).otherwise(0.0).alias("rmr"),
        (receivers - F.col("delivered")).alias("newcomers"),
        # The Jaccard index of the tree's links and those of the message before.
        F.when(union > 0, F.col("kept") / union).alias("stability"),
    )


def _reach(arrivals: DataFrame) -> DataFrame:
    served = F.col("delivered") & ~F.col("origin")
    got = arrivals.groupBy("run", "message").agg(
        F.count_if("live").alias("live"),
        F.count_if("delivered").alias("delivered"),
        F.count_if(served).alias("deliveries"),
        F.count_if(served & (F.col("latency") < 0)).alias("negative_latencies"),
        F.count_if(served & F.col("latency").isNull()).alias("unknown_latencies"),
        F.sort_array(F.collect_list(F.when(served, F.col("latency")))).alias("latencies"),
        F.sort_array(F.collect_list(F.when(F.col("delivered"), F.col("latency")))).alias("times"),
        F.coalesce(F.max(F.when(served, F.col("hops"))), F.lit(0)).alias("ldh"),
        F.avg(F.when(served, F.col("hops"))).alias("mean_hops"),
        F.avg(F.when(served, F.col("latency"))).alias("latency_mean"),
    )
    latencies, times = F.col("latencies"), F.col("times")
    quantiles = {
        f"latency_{name}": nearest_rank(latencies, F.lit(share) * F.size(latencies))
        for name, share in QUANTILES.items()
    }
    until = {
        name: nearest_rank(times, F.lit(share) * (F.col("live") - F.col("unknown_latencies")))
        for name, share in SHARES.items()
    }
    return got.select(
        *(name for name in got.columns if name not in ("latencies", "times")),
        *(value.alias(name) for name, value in quantiles.items()),
        F.array_max(latencies).alias("latency_max"),
        *(value.alias(name) for name, value in until.items()),
    )


def nearest_rank(ordered: Column, rank: Column) -> Column:
    """The element of the sorted array at the 1-based `rank`, rounded up; null beyond its end."""
    place = F.greatest(F.ceil(rank), F.lit(1)).cast("int")
    return F.when(place <= F.size(ordered), F.get(ordered, place - 1))


def _receipts(deliveries: DataFrame) -> DataFrame:
    """Peers that have the message, its publisher included, whether or not that was traced, and how
    many it came to."""
    return deliveries.groupBy(*_MESSAGE).agg(
        (F.count("*") + F.when(F.count_if("origin") == 0, 1).otherwise(0)).alias("receivers"),
        F.count_if(~F.col("origin")).alias("came"),
    )


def copies(duplicates: DataFrame) -> DataFrame:
    """Copies in vain of each message: run, message, duplicates."""
    return duplicates.groupBy("run", "message").agg(F.count("*").alias("duplicates"))


def sent(totals: DataFrame) -> DataFrame:
    """How often each message was sent: run, message, sent."""
    sends = totals.where((F.col("direction") == "send") & F.col("message").isNotNull())
    return sends.select("run", "message", F.col("messages").alias("sent"))


def _fan_out(arrivals: DataFrame) -> DataFrame:
    """The most children of a peer, and the share of peers without any."""
    children = (
        arrivals.where(F.col("delivered") & ~F.col("origin"))
        .groupBy("run", "message", "parent")
        .agg(F.count("*").alias("children"))
    )
    known = F.col("parent").isNotNull()
    served = F.sum("children")
    return children.groupBy("run", "message").agg(
        F.max(F.when(known, F.col("children"))).alias("fan_out_max"),
        F.greatest(F.lit(0.0), (served + 1 - F.count_if(known)) / (served + 1)).alias("leaves"),
    )


def _edges(numbered: DataFrame, deliveries: DataFrame) -> DataFrame:
    """How many links the tree has, and how many of them that of the message before has, too."""
    edges = deliveries.where(F.col("parent").isNotNull()).select(
        *_MESSAGE,
        F.least("peer", "parent").alias("a"),
        F.greatest("peer", "parent").alias("b"),
    )
    edges = edges.distinct().join(
        F.broadcast(numbered.select("run", "topic", "message", "index")), list(_MESSAGE)
    )
    before = F.lag("index").over(Window.partitionBy("run", "topic", "a", "b").orderBy("index"))
    kept = F.coalesce(before == F.col("index") - 1, F.lit(False))
    return (
        edges.withColumn("kept", kept)
        .groupBy(*_MESSAGE)
        .agg(F.count("*").alias("edges"), F.count_if("kept").alias("kept"))
    )
