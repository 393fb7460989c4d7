"""How messages spread, by window and for whole runs."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.answers.messages import QUANTILES
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.sql import at_rank, beside, by_window, grouped_by, ranked

MILLISECOND = 1_000_000

_KEY = ["run", "topic", "window"]


def spread(messages: DataFrame, arrivals: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `spread`: measures of docs/metrics.md."""
    sums = ("live", "delivered", "deliveries", "newcomers", "payloads", "duplicates",
            "negative_latencies", "unknown_latencies")  # fmt: skip
    means = ("reliability", "rmr", "ldh", "mean_hops", "leaves", "stability", "t50", "t90", "t99",
             "t100")  # fmt: skip
    excess = "(sum(payloads) - sum(deliveries)) / sum(deliveries)"
    figures = {
        "messages": "count(*)",
        "worst_reliability": "min(reliability)",
        "atomicity": "avg(double(reliability = 1))",
        "duplicates_per_delivery": f"CASE WHEN sum(deliveries) > 0 THEN {excess} ELSE 0D END",
        "rmr_first": "min(struct(index, rmr)).rmr",
        "rmr_last": "max(struct(index, rmr)).rmr",
        "ldh_max": "max(ldh)",
        "fan_out_max": "max(fan_out_max)",
    }
    figures |= {name: f"sum({name})" for name in sums} | {name: f"avg({name})" for name in means}
    table = grouped_by(by_window(messages, "published", params), _KEY, **figures)
    return beside(_KEY, table, latency_quantiles(_served(arrivals), params))


def _served(arrivals: DataFrame) -> DataFrame:
    """Deliveries whose latency is known."""
    served = arrivals.where("delivered AND NOT origin AND latency IS NOT NULL")
    return served.select("run", "topic", "published", "latency")


def latency_quantiles(served: DataFrame, params: AnswerParams) -> DataFrame:
    """Mean, quantiles and maximum of `latency` (ns), by the nearest rank: values that at least
    this share of the deliveries doesn't exceed."""
    wanted = {f"latency_{name}": at_rank("latency", share) for name, share in QUANTILES.items()}
    return grouped_by(
        ranked(by_window(served, "published", params), _KEY, "latency"), _KEY,
        latency_mean="avg(latency)", **wanted, latency_min="min(latency)",
        latency_max="max(latency)",
    )  # fmt: skip


def latency_cdf(arrivals: DataFrame) -> DataFrame:
    """The table `latency_cdf`: deliveries per millisecond of latency and up to it."""
    millisecond = F.floor(F.col("latency") / MILLISECOND)
    served = _served(arrivals).withColumn("millisecond", millisecond)
    bins = grouped_by(served, ["run", "topic", "millisecond"], deliveries="count(*)")
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
    lost = causes.where("latency IS NULL").select(*key, "cause")
    lacking = arrivals.where("NOT delivered").join(lost, key, "left")
    why = F.expr("CASE WHEN live THEN cause ELSE ending END")
    lacking = by_window(lacking.withColumn("reason", why), "published", params)
    return grouped_by(lacking, [*_KEY, "reason"], count="count(*)")


def duplicates(duplicates: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `duplicate_causes`: copies in vain by cause."""
    return grouped_by(by_window(duplicates, "time", params), [*_KEY, "cause"], count="count(*)")
