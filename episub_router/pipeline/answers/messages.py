"""How each message spread: one row per message."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.sql import beside, grouped_by

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
    """The table `messages`; `copies` and `sent` are what the functions of these
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
    order = Window.partitionBy("run", "topic").orderBy("index")
    # As many as were sent, in runs that trace sends, else as many as came in.
    payloads = F.expr("CASE WHEN sends_traced THEN sent ELSE came + duplicates END")
    union = F.col("edges") + F.lag("edges").over(order) - F.col("kept")
    return table.withColumn("payloads", payloads).withColumn("union", union).selectExpr(
        *_COLUMNS, "CASE WHEN live > 0 THEN delivered / live ELSE 1D END AS reliability",
        "CASE WHEN receivers > 1 THEN payloads / (receivers - 1) - 1 ELSE 0D END AS rmr",
        "receivers - delivered AS newcomers",
        # The Jaccard index of the tree's links and those of the message before.
        "CASE WHEN `union` > 0 THEN kept / `union` END AS stability",
    )  # fmt: skip


def _reach(arrivals: DataFrame) -> DataFrame:
    is_served = "delivered AND NOT origin"
    served = f"FILTER (WHERE {is_served})"
    got = grouped_by(
        arrivals, _MESSAGE, live="count_if(live)", delivered="count_if(delivered)",
        deliveries=f"count(*) {served}",
        negative_latencies=f"count_if({is_served} AND latency < 0)",
        unknown_latencies=f"count_if({is_served} AND latency IS NULL)",
        latencies=f"sort_array(collect_list(latency) {served})",
        times="sort_array(collect_list(latency) FILTER (WHERE delivered))",
        ldh=f"coalesce(max(hops) {served}, 0)", mean_hops=f"avg(hops) {served}",
        latency_mean=f"avg(latency) {served}",
    )  # fmt: skip
    latencies, times = F.col("latencies"), F.col("times")
    known = F.col("live") - F.col("unknown_latencies")
    made = {
        f"latency_{name}": nearest_rank(latencies, F.lit(share) * F.size(latencies))
        for name, share in QUANTILES.items()
    } | {name: nearest_rank(times, F.lit(share) * known) for name, share in SHARES.items()}
    return got.withColumns(made | {"latency_max": F.array_max(latencies)}).drop(
        "latencies", "times"
    )


def nearest_rank(ordered: Column, rank: Column) -> Column:
    """The element of the sorted array at the 1-based `rank`, rounded up; null beyond its end."""
    place = F.greatest(F.ceil(rank), F.lit(1)).cast("int")
    return F.when(place <= F.size(ordered), F.get(ordered, place - 1))


def _receipts(deliveries: DataFrame) -> DataFrame:
    """Peers that have the message, its publisher included, whether or not that was traced, and how
    many it came to."""
    origins = "CASE WHEN count_if(origin) = 0 THEN 1 ELSE 0 END"
    return grouped_by(
        deliveries, _MESSAGE, receivers=f"count(*) + {origins}", came="count_if(NOT origin)"
    )


def copies(duplicates: DataFrame) -> DataFrame:
    """Copies in vain of each message: run, message, duplicates."""
    return grouped_by(duplicates, _MESSAGE, duplicates="count(*)")


def sent(totals: DataFrame) -> DataFrame:
    """How often each message was sent: run, message, sent."""
    sends = totals.where("direction = 'send' AND message IS NOT NULL")
    return sends.selectExpr(*_MESSAGE, "messages AS sent")


def _fan_out(arrivals: DataFrame) -> DataFrame:
    """The most children of a peer, and the share of peers without any."""
    served = arrivals.where("delivered AND NOT origin")
    children = grouped_by(served, [*_MESSAGE, "parent"], children="count(*)")
    parents = "count_if(parent IS NOT NULL)"
    return grouped_by(
        children, _MESSAGE, fan_out_max="max(CASE WHEN parent IS NOT NULL THEN children END)",
        leaves=f"greatest(0D, (sum(children) + 1 - {parents}) / (sum(children) + 1))",
    )  # fmt: skip


def _edges(numbered: DataFrame, deliveries: DataFrame) -> DataFrame:
    """How many links the tree has, and how many of them that of the message before has, too."""
    edges = deliveries.where("parent IS NOT NULL").selectExpr(
        *_MESSAGE, "least(peer, parent) AS a", "greatest(peer, parent) AS b"
    )
    of_topics = F.broadcast(numbered.select("run", "topic", "message", "index"))
    before = F.lag("index").over(Window.partitionBy("run", "topic", "a", "b").orderBy("index"))
    edges = edges.distinct().join(of_topics, list(_MESSAGE)).withColumn("before", before)
    kept = "count_if(coalesce(before = index - 1, false))"
    return grouped_by(edges, _MESSAGE, edges="count(*)", kept=kept)
