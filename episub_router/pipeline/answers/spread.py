"""How messages spread, by window and for whole runs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.messages import QUANTILES
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.windows import window_of

MILLISECOND = 1_000_000

_KEY = ["run", "topic", "window"]


def by_window(table: DataFrame, time: str, params: AnswerParams) -> DataFrame:
    """`table` twice: with the `window` of each row, and with null for the whole run."""
    both = F.array(window_of(time, params), F.lit(None).cast("long"))
    return table.withColumn("window", F.explode(both))


def spread(messages: DataFrame, arrivals: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `spread` of docs/pipeline.md."""
    figures = by_window(messages, "published", params)
    payloads, deliveries = F.sum("payloads"), F.sum("deliveries")
    first = F.struct("index", "rmr")
    table = figures.groupBy(*_KEY).agg(
        F.count("*").alias("messages"),
        F.avg("reliability").alias("reliability"),
        F.min("reliability").alias("worst_reliability"),
        F.avg((F.col("reliability") == 1.0).cast("double")).alias("atomicity"),
        F.sum("live").alias("live"),
        F.sum("delivered").alias("delivered"),
        deliveries.alias("deliveries"),
        F.sum("newcomers").alias("newcomers"),
        payloads.alias("payloads"),
        F.sum("duplicates").alias("duplicates"),
        F.sum("negative_latencies").alias("negative_latencies"),
        F.sum("unknown_latencies").alias("unknown_latencies"),
        F.when(deliveries > 0, (payloads - deliveries) / deliveries)
        .otherwise(0.0)
        .alias("duplicates_per_delivery"),
        F.avg("rmr").alias("rmr"),
        F.min(first)["rmr"].alias("rmr_first"),
        F.max(first)["rmr"].alias("rmr_last"),
        F.avg("ldh").alias("ldh"),
        F.max("ldh").alias("ldh_max"),
        F.avg("mean_hops").alias("mean_hops"),
        F.max("fan_out_max").alias("fan_out_max"),
        F.avg("leaves").alias("leaves"),
        F.avg("stability").alias("stability"),
        *(F.avg(name).alias(name) for name in ("t50", "t90", "t99", "t100")),
    )
    latencies = latency_quantiles(_served(arrivals), params)
    return table.join(latencies, _null_safe(table, latencies), "left").select(
        *(table[name] for name in table.columns),
        *(latencies[name] for name in latencies.columns if name not in _KEY),
    )


def _null_safe(left: DataFrame, right: DataFrame) -> Column:
    both = [left[name].eqNullSafe(right[name]) for name in _KEY]
    return both[0] & both[1] & both[2]


def _served(arrivals: DataFrame) -> DataFrame:
    """Deliveries whose latency is known."""
    served = F.col("delivered") & ~F.col("origin") & F.col("latency").isNotNull()
    return arrivals.where(served).select("run", "topic", "published", "latency")


def latency_quantiles(served: DataFrame, params: AnswerParams) -> DataFrame:
    """Mean, quantiles and maximum of `latency` (ns), by the nearest rank: values that at least
    this share of the deliveries doesn't exceed. Exact, and sorted on disk where it must be."""
    spans = Window.partitionBy(*_KEY)
    ranked = by_window(served, "published", params).select(
        *_KEY,
        "latency",
        F.row_number().over(spans.orderBy("latency")).alias("rank"),
        F.count("*").over(spans).alias("count"),
    )
    wanted = {
        f"latency_{name}": F.greatest(F.ceil(F.col("count") * share), F.lit(1))
        for name, share in QUANTILES.items()
    }
    return ranked.groupBy(*_KEY).agg(
        F.avg("latency").alias("latency_mean"),
        *(
            F.max(F.when(F.col("rank") == rank, F.col("latency"))).alias(name)
            for name, rank in wanted.items()
        ),
        F.min("latency").alias("latency_min"),
        F.max("latency").alias("latency_max"),
    )


def latency_cdf(arrivals: DataFrame) -> DataFrame:
    """The table `latency_cdf`: deliveries per millisecond of latency and up to it."""
    bins = (
        _served(arrivals)
        .groupBy("run", "topic", F.floor(F.col("latency") / MILLISECOND).alias("millisecond"))
        .agg(F.count("*").alias("deliveries"))
    )
    key = Window.partitionBy("run", "topic")
    so_far = key.orderBy("millisecond").rowsBetween(Window.unboundedPreceding, 0)
    return bins.select(
        "*",
        F.sum("deliveries").over(so_far).alias("cumulative"),
        (F.sum("deliveries").over(so_far) / F.sum("deliveries").over(key)).alias("share"),
    )


def missing(arrivals: DataFrame, causes: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `missing`: messages that didn't come, by their causes, or by how the peer went."""
    key = ["run", "topic", "message", "peer"]
    lost = causes.where(F.col("latency").isNull()).select(*key, "cause")
    why = F.when(F.col("live"), F.col("cause")).otherwise(F.col("ending"))
    lacking = arrivals.where(~F.col("delivered")).join(lost, key, "left")
    lacking = by_window(lacking, "published", params)
    return lacking.groupBy(*_KEY, why.alias("reason")).agg(F.count("*").alias("count"))


def duplicates(duplicates: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `duplicate_causes`: copies in vain by cause, and how long after the delivery."""
    first = duplicates.groupBy("run", "message", "peer").agg(F.min("gap").alias("first_gap"))
    windowed = by_window(duplicates, "time", params)
    counted = windowed.groupBy(*_KEY, "cause").agg(
        F.count("*").alias("count"), F.avg("gap").alias("gap_mean")
    )
    of_run = first.groupBy("run").agg(
        F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY first_gap)").alias("first_gap_p50")
    )
    return counted.join(F.broadcast(of_run), "run", "left")
