"""How far the trace itself is to be trusted."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.facts.clocks import SET
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import beside, grouped_by

_MAY_BE_NULL = {
    "begin", "end", "settled", "largest_offset", "largest_uncertainty",
    "subscriptions_inferred",
}  # fmt: skip
"""What isn't a count."""


def quality(
    records: DataFrame,
    contacts: DataFrame,
    publishes: DataFrame,
    deliveries: DataFrame,
    clocks: DataFrame,
    subscriptions: DataFrame,
    spans: DataFrame,
    activity: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """The table `quality`: one row per run. Of `records`, bronze, it takes what is no event, or one
    of the tracer's own."""
    run, deadline = ["run"], int(params.deadline * SECOND)
    counted = grouped_by(
        contacts, run, events="sum(count)", late="sum(late)", unknown_events="sum(unknown)",
        peers="count(DISTINCT CASE WHEN count > 0 THEN peer END)",
    )  # fmt: skip
    # Apart, since each is found without a look at the events.
    others = records.where("status != 'event'").unionByName(
        records.where("status = 'event' AND event IN ('header', 'report')")
    )
    said = F.from_json(F.expr("CASE WHEN status = 'event' THEN detail END"),
                       "dropped bigint, failed bigint")  # fmt: skip
    # A tracer's books are totals over all its files: the last of each node counts.
    of_nodes = grouped_by(
        others.withColumn("said", said), ["run", "peer"],
        quarantined="count_if(status = 'quarantined')", books="count_if(status = 'event')",
        dropped_by_tracer="max(said.dropped)", failed_by_tracer="max(said.failed)",
    )  # fmt: skip
    sums = {name: f"sum({name})" for name in of_nodes.columns[2:]}
    both = "array(struct(peer, true AS traced), struct(remote AS peer, false AS traced))"
    named = contacts.selectExpr("run", f"inline({both})").where("peer IS NOT NULL")
    untraced = grouped_by(named, ["run", "peer"], traced="max(traced)")
    table = beside(
        run, counted, grouped_by(of_nodes, run, **sums), spans,
        grouped_by(untraced, run, untraced_peers="count_if(NOT traced)"),
        grouped_by(
            deliveries, run, deliveries="count(*)", served="count_if(NOT origin)",
            negative_latencies="count_if(latency < 0)",
            unknown_latencies="count_if(latency IS NULL)",
            negative_before_correction="count_if(raw_latency < 0)",
            repeated_deliveries="sum(repeats)", without_depth="count_if(hops IS NULL)",
        ),
        grouped_by(activity, run, cut_short=f"count_if(traced < last - {deadline})"),
        grouped_by(publishes, run, messages="count(*)", inferred_publishes="count_if(inferred)"),
        grouped_by(
            clocks, run, clocks="count(*)", clocks_corrected="count_if(correction != 0)",
            clocks_unknown="count_if(offset IS NULL)", clocks_set=f"count_if(note = '{SET}')",
            largest_offset="max(abs(offset))", largest_uncertainty="max(uncertainty)",
        ),
        grouped_by(
            subscriptions, run, silent_peers="count_if(ending = 'silent')",
            subscriptions_inferred="max(inferred)",
        ),
    )  # fmt: skip
    table = table.fillna(0, [name for name in table.columns if name not in {"run"} | _MAY_BE_NULL])
    table = table.withColumn("events", F.col("events") + F.col("books")).drop("books")
    return table.withColumn("deadline", F.lit(params.deadline))
