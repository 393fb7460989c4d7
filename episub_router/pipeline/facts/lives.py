"""Which peers were there: subscriptions, and links between peers, as intervals.

An interval is [since, until); `until` is null where it was still so when the trace ended.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import grouped_by

CHANGES = ("join", "leave", "node", "neighbor", "graft", "prune", "stream-up", "stream-down")
"""The events that links and subscriptions follow from."""

_AT = ("time", "file", "offset")


def changes(events: DataFrame) -> DataFrame:
    """One row for each of `CHANGES`: run, event, peer, time, topic, remote, state, kind, file,
    offset."""
    return events.where(F.col("event").isin(*CHANGES)).select(
        "run", "event", "peer", "time", "topic", "remote", "state", "kind", "file", "offset"
    )


def activity(contacts: DataFrame, spans: DataFrame) -> DataFrame:
    """One row per peer that traced anything: run, peer, last (the time of its last event but the
    outliers, or of what others had of it: a trace that was cut short isn't a peer that went),
    traced (the time of its own), receives (whether its trace has receipts)."""
    ends = F.broadcast(spans.selectExpr("run", "`end` AS run_end"))
    near = contacts.join(ends, "run")
    last = "max(CASE WHEN `{0}` <= run_end THEN `{0}` END)".format
    heard = grouped_by(near.where("heard IS NOT NULL").selectExpr(
        "run", "remote AS peer", "heard_last", "run_end"
    ), ["run", "peer"], heard=last("heard_last"))  # fmt: skip
    traced = grouped_by(near, ["run", "peer"], traced=last("end"), receives="max(receipts > 0)")
    return traced.join(heard, ["run", "peer"], "left").selectExpr(
        "run", "peer", "greatest(traced, heard) AS last", "traced", "receives"
    )


def links(changes: DataFrame) -> DataFrame:
    """One row per interval: run, topic, kind, peer, remote, since, until.

    Kinds: `eager` (GRAFT to PRUNE; with gossipsub, the mesh), `lazy`, `active` (neighbours),
    `stream` (an open stream). A link is as `peer` sees it, and ends with its life.
    """
    states = changes.where(
        "event IN ('graft', 'prune', 'neighbor', 'stream-up', 'stream-down')"
    ).selectExpr(
        "run", "topic", "peer", "remote", *_AT,
        "CASE WHEN event IN ('graft', 'prune') THEN 'tree' WHEN event = 'neighbor' THEN 'active' "
        "ELSE 'stream' END AS layer",
        "CASE WHEN event = 'graft' THEN 'eager' WHEN event = 'prune' AND state = 'lazy' THEN 'lazy'"
        " WHEN event = 'neighbor' AND state = 'up' THEN 'active' "
        "WHEN event = 'stream-up' THEN 'stream' END AS state",
    )  # fmt: skip
    # No neighbour, no place in the tree.
    downs = states.where("layer = 'active' AND state IS NULL").withColumn("layer", F.lit("tree"))
    states = states.unionByName(downs)
    key = ("run", "topic", "layer", "peer", "remote")
    ended = _ended(states.select(*key).distinct(), changes).drop("ending")
    intervals = _intervals(states.unionByName(ended), *key)
    return intervals.selectExpr("run", "topic", "state AS kind", "peer", "remote", "since", "until")


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
    joins = changes.where("event = 'join'").selectExpr(
        "run", "topic", "peer", *_AT, "'join' AS state", "string(null) AS ending"
    )
    topics = joins.select("run", "topic", "peer").distinct()
    joined = _intervals(joins.unionByName(_ended(topics, changes)), "run", "topic", "peer")
    joined = joined.selectExpr("run", "topic", "peer", "since", "until", "ending",
                               "false AS inferred")  # fmt: skip
    table = joined.unionByName(_assumed(activity, publishes, topics, spans))
    table = _silenced(table, activity, spans, params)
    hostile = changes.where("event = 'node' AND state = 'hostile'").select("run", "peer")
    table = table.join(F.broadcast(hostile.distinct()), ["run", "peer"], "anti")
    published = publishes.select("run", "topic").unionByName(topics.select("run", "topic"))
    return _linked(table, links, published.distinct())


def _linked(table: DataFrame, links: DataFrame, topics: DataFrame) -> DataFrame:
    """`subscriptions` in any of `topics`, with the time at which each first had a link."""
    ends = ("run AS of", "peer AS at", "since AS first", "until AS last")
    neighbours = links.where("kind IN ('active', 'eager')").selectExpr("topic AS what", *ends)
    overlays = links.where("kind = 'active'").select("run", "topic").distinct()
    streams = links.where("kind = 'stream'").selectExpr(*ends)
    without = topics.join(overlays, ["run", "topic"], "anti").selectExpr(
        "run AS of", "topic AS what"
    )
    neighbours = neighbours.unionByName(streams.join(F.broadcast(without), "of"))
    meets = (
        "run = of AND topic = what AND peer = at AND (last IS NULL OR last > since) "
        "AND (until IS NULL OR first < until)"
    )
    found = table.join(neighbours, F.expr(meets), "left")
    key = ["run", "topic", "peer", "since", "until", "ending", "inferred"]
    linked = "CASE WHEN count(first) > 0 THEN greatest(min(first), since) END"
    return grouped_by(found, key, linked=linked)


def _ended(pairs: DataFrame, changes: DataFrame) -> DataFrame:
    """Rows for when `pairs`, of a topic and a peer at least, ended, as the peer left: their
    columns, `_AT`, state (null) and ending."""
    ends = changes.where(
        "event = 'leave' OR event = 'node' AND state IN ('leave', 'crash')"
    ).selectExpr(
        "run", "peer", *_AT, "CASE WHEN event = 'node' THEN state ELSE 'leave' END AS ending",
        "event = 'node' AS of_all", "topic AS of_topic",
    )  # fmt: skip
    ended = pairs.join(ends, ["run", "peer"]).where(
        "of_all OR of_topic IS NULL OR of_topic = topic"
    )
    return ended.selectExpr(*pairs.columns, *_AT, "string(null) AS state", "ending")


def _intervals(states: DataFrame, *key: str) -> DataFrame:
    """Intervals of equal, non-null `state` in `states`, which has `_AT` to order by; `ending` is
    that of the row that ended it, if `states` has one."""
    order = Window.partitionBy(*key).orderBy(*_AT)
    # Null is a state too: the one of not being there.
    state = F.coalesce("state", F.lit(""))
    changed = states.withColumn("before", F.lag(state, 1, "").over(order)).where(
        state != F.col("before")
    )
    spans = changed.withColumn("until", F.lead("time").over(order))
    if "ending" in states.columns:
        spans = spans.withColumn("ending", F.lead("ending").over(order))
    return spans.where("state IS NOT NULL").withColumnRenamed("time", "since")


def _assumed(
    activity: DataFrame, publishes: DataFrame, topics: DataFrame, spans: DataFrame
) -> DataFrame:
    """Subscriptions of all peers to topics with messages that nobody joined."""
    published = publishes.select("run", "topic").distinct()
    orphans = published.join(topics.select("run", "topic").distinct(), ["run", "topic"], "anti")
    start = spans.selectExpr("run", "begin AS since")
    peers = orphans.join(activity.select("run", "peer"), "run").join(start, "run")
    return peers.selectExpr(
        "run", "topic", "peer", "since", "bigint(null) AS until", "string(null) AS ending",
        "true AS inferred",
    )  # fmt: skip


def _silenced(
    table: DataFrame, activity: DataFrame, spans: DataFrame, params: AnswerParams
) -> DataFrame:
    receives = grouped_by(activity, ["run"], receipts_traced="max(receives)")
    of_run = receives.join(F.broadcast(spans.select("run", "end")), "run")
    fell = f"until IS NULL AND receipts_traced AND last < `end` - {int(params.silence * SECOND)}"
    return (
        table.join(activity.select("run", "peer", "last"), ["run", "peer"], "left")
        .join(F.broadcast(of_run), "run", "left")
        .withColumn("fell", F.expr(fell))
        .withColumn("ending", F.expr("CASE WHEN fell THEN 'silent' ELSE ending END"))
        .withColumn("until", F.expr("CASE WHEN fell THEN last ELSE until END"))
        .drop("last", "end", "receipts_traced", "fell")
    )
