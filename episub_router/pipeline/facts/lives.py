"""Which peers were there: subscriptions, and links between peers, as intervals.

An interval is [since, until); `until` is null where it was still so when the trace ended.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams

CHANGES = ("join", "leave", "node", "neighbor", "graft", "prune", "stream-up", "stream-down")
"""The events that links and subscriptions follow from."""


def is_change() -> Column:
    """Whether an event is one of `CHANGES`."""
    return F.col("event").isin(*CHANGES)


def changes(events: DataFrame) -> DataFrame:
    """One row for each of `CHANGES`: run, event, peer, time, topic, remote, state, kind, file,
    offset."""
    return events.where(is_change()).select(
        "run", "event", "peer", "time", "topic", "remote", "state", "kind", "file", "offset"
    )


def activity(contacts: DataFrame, spans: DataFrame) -> DataFrame:
    """One row per peer that traced anything: run, peer, last (the time of its last event but the
    outliers, or of what others had of it: a trace that was cut short isn't a peer that went),
    receives (whether its trace has receipts)."""
    ends = F.broadcast(spans.select("run", F.col("end").alias("run_end")))
    near = contacts.join(ends, "run")
    end = F.when(F.col("end") <= F.col("run_end"), F.col("end"))
    heard = near.where("received > 0").groupBy("run", F.col("remote").alias("peer"))
    traced = near.groupBy("run", "peer").agg(
        F.max(end).alias("traced"), F.max(F.col("receipts") > 0).alias("receives")
    )
    return traced.join(heard.agg(F.max(end).alias("heard")), ["run", "peer"], "left").select(
        "run", "peer", F.greatest("traced", "heard").alias("last"), "receives"
    )


def links(changes: DataFrame) -> DataFrame:
    """One row per interval: run, topic, kind, peer, remote, since, until.

    Kinds: `eager` (GRAFT to PRUNE; with gossipsub, the mesh), `lazy`, `active` (neighbours),
    `stream` (an open stream). A link is as `peer` sees it, and ends with its life.
    """
    of_links = changes.where(
        F.col("event").isin("graft", "prune", "neighbor", "stream-up", "stream-down")
    )
    up = F.col("event").isin("graft", "stream-up") | (F.col("state") == "up")
    state = (
        F.when(F.col("event") == "graft", "eager")
        .when((F.col("event") == "prune") & (F.col("state") == "lazy"), "lazy")
        .when((F.col("event") == "neighbor") & up, "active")
        .when(F.col("event") == "stream-up", "stream")
    )
    layer = (
        F.when(F.col("event").isin("graft", "prune"), "tree")
        .when(F.col("event") == "neighbor", "active")
        .otherwise("stream")
    )
    states = of_links.select(
        "run", "topic", layer.alias("layer"), "peer", "remote", "time", "file", "offset",
        state.alias("state"),
    )  # fmt: skip
    # No neighbour, no place in the tree.
    downs = states.where((F.col("layer") == "active") & F.col("state").isNull())
    states = states.unionByName(downs.withColumn("layer", F.lit("tree")))
    pairs = states.select("run", "topic", "layer", "peer", "remote").distinct()
    ends = pairs.join(_ends(changes), ["run", "peer"]).where(
        F.col("end_topic").isNull() | (F.col("end_topic") == F.col("topic"))
    )
    ended = ends.select(
        "run", "topic", "layer", "peer", "remote", "time", "file", "offset",
        F.lit(None).cast("string").alias("state"),
    )  # fmt: skip
    intervals = _intervals(states.unionByName(ended), "run", "topic", "layer", "peer", "remote")
    return intervals.withColumnRenamed("state", "kind").select(
        "run", "topic", "kind", "peer", "remote", "since", "until"
    )


def subscriptions(
    changes: DataFrame,
    links: DataFrame,
    activity: DataFrame,
    publishes: DataFrame,
    spans: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """One row per time that a peer was subscribed: run, topic, peer, since, until, ending (leave,
    crash, silent; null while it lasts), linked (when it first had a link in it), inferred. Hostile
    peers, of which a simulated run tells, are left out: nobody promises them anything.

    A link is an active or eager one; in a topic where nobody has active links, as with gossipsub
    and floodsub, an open stream is one too: what goes over it needs no mesh.

    `silent` are peers of a run with traced receipts whose own trace ended long before the run.
    For a topic that nobody is seen to join, all peers of the run count, from the beginning.
    """
    joins = changes.where(F.col("event") == "join").select(
        "run", "topic", "peer", "time", "file", "offset", F.lit("join").alias("state")
    )
    topics = joins.select("run", "topic", "peer").distinct()
    ends = topics.join(_ends(changes), ["run", "peer"]).where(
        F.col("end_topic").isNull() | (F.col("end_topic") == F.col("topic"))
    )
    states = joins.withColumn("ending", F.lit(None).cast("string")).unionByName(
        ends.select(
            "run", "topic", "peer", "time", "file", "offset",
            F.lit(None).cast("string").alias("state"), "ending",
        )
    )  # fmt: skip
    joined = _intervals(states, "run", "topic", "peer").select(
        "run", "topic", "peer", "since", "until", "ending", F.lit(False).alias("inferred")
    )
    table = joined.unionByName(_assumed(activity, publishes, topics, spans))
    table = _silenced(table, activity, spans, params)
    hostile = changes.where((F.col("event") == "node") & (F.col("state") == "hostile"))
    table = table.join(
        F.broadcast(hostile.select("run", "peer").distinct()), ["run", "peer"], "anti"
    )
    linked = _first_links(table, links)
    return table.join(linked, ["run", "topic", "peer", "since"], "left").select(
        "run", "topic", "peer", "since", "until", "ending", "linked", "inferred"
    )


def _first_links(table: DataFrame, links: DataFrame) -> DataFrame:
    """When each subscription first had a link: run, topic, peer, since, linked."""
    ends = ("run", "peer", F.col("since").alias("from"), F.col("until").alias("to"))
    neighbours = links.where(F.col("kind").isin("active", "eager")).select("topic", *ends)
    overlays = links.where(F.col("kind") == "active").select("run", "topic").distinct()
    streams = links.where(F.col("kind") == "stream").select(*ends)
    topics = table.select("run", "topic").distinct().join(overlays, ["run", "topic"], "anti")
    neighbours = neighbours.unionByName(streams.join(F.broadcast(topics), "run"))
    both = (F.col("to").isNull() | (F.col("to") > F.col("since"))) & (
        F.col("until").isNull() | (F.col("from") < F.col("until"))
    )
    return (
        table.join(neighbours, ["run", "topic", "peer"])
        .where(both)
        .groupBy("run", "topic", "peer", "since")
        .agg(F.greatest(F.min("from"), F.col("since")).alias("linked"))
    )


def _ends(changes: DataFrame) -> DataFrame:
    """When peers left: run, peer, time, file, offset, ending, end_topic (null: all topics)."""
    of_node = (F.col("event") == "node") & F.col("state").isin("leave", "crash")
    return changes.where(of_node | (F.col("event") == "leave")).select(
        "run",
        "peer",
        "time",
        "file",
        "offset",
        F.when(of_node, F.col("state")).otherwise("leave").alias("ending"),
        F.when(~of_node, F.col("topic")).alias("end_topic"),
    )


def _intervals(states: DataFrame, *key: str) -> DataFrame:
    """Intervals of equal, non-null `state` in `states`, which has `time`, `file` and `offset` to
    order by; `ending` is that of the row that ended it, if `states` has one."""
    order = Window.partitionBy(*key).orderBy("time", "file", "offset")
    # Null is a state too: the one of not being there.
    state = F.coalesce("state", F.lit(""))
    changed = states.withColumn("before", F.lag(state, 1, "").over(order)).where(
        state != F.col("before")
    )
    spans = changed.withColumn("until", F.lead("time").over(order))
    if "ending" in states.columns:
        spans = spans.withColumn("ending", F.lead("ending").over(order))
    return spans.where(F.col("state").isNotNull()).withColumnRenamed("time", "since")


def _assumed(
    activity: DataFrame, publishes: DataFrame, topics: DataFrame, spans: DataFrame
) -> DataFrame:
    """Subscriptions of all peers to topics with messages that nobody joined."""
    published = publishes.select("run", "topic").distinct()
    orphans = published.join(topics.select("run", "topic").distinct(), ["run", "topic"], "anti")
    peers = activity.select("run", "peer", F.lit(None).cast("long").alias("until"))
    start = spans.select("run", F.col("begin").alias("since"))
    return (
        orphans.join(peers, "run")
        .join(start, "run")
        .select(
            "run",
            "topic",
            "peer",
            "since",
            "until",
            F.lit(None).cast("string").alias("ending"),
            F.lit(True).alias("inferred"),
        )
    )


def _silenced(
    table: DataFrame, activity: DataFrame, spans: DataFrame, params: AnswerParams
) -> DataFrame:
    ends = F.broadcast(spans.select("run", "end"))
    receives = activity.groupBy("run").agg(F.max("receives").alias("receipts_traced"))
    of_run = receives.join(ends, "run")
    fell = (
        F.col("until").isNull()
        & F.col("receipts_traced")
        & (F.col("last") < F.col("end") - int(params.silence * SECOND))
    )
    return (
        table.join(activity.select("run", "peer", "last"), ["run", "peer"], "left")
        .join(F.broadcast(of_run), "run", "left")
        .withColumn("ending", F.when(fell, "silent").otherwise(F.col("ending")))
        .withColumn("until", F.when(fell, F.col("last")).otherwise(F.col("until")))
        .drop("last", "end", "receipts_traced")
    )
