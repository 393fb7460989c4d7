"""How messages got to each peer, and to peers of each kind: by software, protocol and region."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import at_rank, grouped_by, ranked


def groups(traits: DataFrame, arrivals: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `groups`: one row per trait and value of it that a peer has that was to get a
    message of another: how many such peers there are, and how they fared."""
    others = arrivals.where("live AND NOT origin").join(F.broadcast(traits), ["run", "peer"])
    key = ["run", "trait", "value"]
    return grouped_by(
        ranked(others, key, "latency"), key, peers="count(DISTINCT peer)", expected="count(*)",
        missing="count_if(NOT delivered)", late=_late(params), latency_mean="avg(latency)",
        latency_p50=at_rank("latency", 0.5), latency_p99=at_rank("latency", 0.99),
        hops_mean="avg(hops)",
    )  # fmt: skip


def peers(arrivals: DataFrame, causes: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `peers`: how each peer fared with the messages of others, and what for it lacks
    some, or got them late: causes with their counts, the most frequent first, as text."""
    key = ["run", "peer"]
    table = grouped_by(
        arrivals.where("live AND NOT origin"), key, expected="count(*)",
        missing="count_if(NOT delivered)", late=_late(params), hops="avg(hops)",
        latency="avg(latency) FILTER (WHERE delivered)",
    )  # fmt: skip
    counted = grouped_by(causes, [*key, "cause"], less="-count(*)")
    said = "transform(array_sort(collect_list(struct(less, cause))), one -> {})"
    said = said.format("concat_ws(' ', string(-one.less), one.cause)")
    return table.join(grouped_by(counted, key, causes=f"array_join({said}, ', ')"), key, "left")


def _late(params: AnswerParams) -> str:
    return f"count_if(latency > {int(params.deadline * SECOND)})"
