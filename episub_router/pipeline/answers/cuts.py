"""Which peers were apart, from when to when, and what was late or lost for that reason.

In each window in which messages came late or not at all, peers are nodes of a graph, and two are
linked if one received anything of the other. Its parts are apart. A part of one peer that traced
nothing was stopped, others were cut off. A cut explains what was published in one part and late or
lost in another, in the window of its publishing or the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.windows import window_of

PLACES = StructType(
    [
        StructField("run", StringType(), False),
        StructField("window", LongType(), False),
        StructField("peer", StringType(), False),
        StructField("part", LongType(), False),  # 0 is the largest
        StructField("active", LongType(), False),  # events of the peer in the window
    ]
)
"""Which part each peer was in, in windows of trouble."""

CUTS = StructType(
    [
        StructField("run", StringType(), False),
        StructField("kind", StringType(), False),  # cut, stopped
        StructField("begin", LongType(), False),  # ns; of its first window
        StructField("end", LongType(), False),  # ns; of its last window
        StructField("peers", ArrayType(StringType()), False),  # the smaller side, SHOWN at most
        StructField("count", LongType(), False),  # of these peers
        StructField("others", LongType(), False),  # peers in all other parts
        StructField("silent_links", ArrayType(StringType()), False),  # "a - b", SHOWN at most
        StructField("late", LongType(), False),  # deliveries
        StructField("lost", LongType(), False),
    ]
)

SHOWN = 100
"""Peers and links that are named at most."""


def explained(wrong: DataFrame, there: DataFrame, params: AnswerParams) -> DataFrame:
    """What was late by more than `patience`, or lost without the peer's having gone, because the
    peer and the publisher were apart: run, topic, message, peer, lost, window (in which they were),
    part (the smaller of theirs). `wrong` are the `troubles`, `there` the `places`."""
    size = int(params.window * SECOND)
    of_peer = there.select("run", "window", "peer", "part")
    # New columns, since both come from the same table.
    of_source = of_peer.toDF("run", "window", "source", "other")
    both = F.explode(F.array(F.col("window"), F.col("window") + size))
    apart = (
        wrong.withColumn("window", both)
        .join(of_peer, ["run", "window", "peer"])
        .join(of_source, ["run", "window", "source"])
        .where(F.col("part") != F.col("other"))
        .withColumn("part", F.greatest("part", "other"))
    )
    first = F.min(F.struct("window", "part"))
    return (
        apart.groupBy("run", "topic", "message", "peer", "lost")
        .agg(first.alias("first"))
        .select("run", "topic", "message", "peer", "lost", "first.*")
    )


def troubles(arrivals: DataFrame, publishes: DataFrame, params: AnswerParams) -> DataFrame:
    """What was late or lost: run, topic, message, source, peer, window, lost."""
    late = F.coalesce(F.col("latency") > int(params.patience * SECOND), F.lit(False))
    wrong = F.col("live") & ~F.col("origin") & (~F.col("delivered") | late)
    sources = publishes.select("run", "message", "source")
    return (
        arrivals.where(wrong)
        .join(sources, ["run", "message"])
        .select(
            "run", "topic", "message", "source", "peer",
            window_of("published", params).alias("window"), (~F.col("delivered")).alias("lost"),
        )
    )  # fmt: skip


def places(contacts: DataFrame, wrong: DataFrame, params: AnswerParams) -> DataFrame:
    """`PLACES` in the windows of `troubles` and those after."""
    size = int(params.window * SECOND)
    both = F.explode(F.array(F.col("window"), F.col("window") + size)).alias("window")
    windows = wrong.select("run", both).distinct()
    near = contacts.where("count > 0").join(F.broadcast(windows), ["run", "window"])
    sender = F.when(F.col("received") > 0, F.col("remote")).alias("remote")
    # Of a peer that was stopped, nobody has anything.
    silent = F.explode(F.array("peer", "source")).alias("peer")
    named = wrong.select("run", "window", silent).distinct()
    named = named.select(
        "run", both, "peer", F.lit(None).cast("string").alias("remote"),
        F.lit(0).cast("long").alias("count"),
    )  # fmt: skip
    rows = near.select("run", "window", "peer", sender, "count").unionByName(named)
    return rows.groupBy("run", "window").applyInPandas(parts_of, PLACES)


def parts_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `PLACES` from the contacts of one window."""
    linked = rows[rows["remote"].notna()]
    active = rows.groupby("peer")["count"].sum()
    above: dict[str, str] = {peer: peer for peer in (*rows["peer"], *linked["remote"])}

    def root(peer: str) -> str:
        while above[peer] != peer:
            above[peer] = above[above[peer]]
            peer = above[peer]
        return peer

    for peer, remote in zip(linked["peer"], linked["remote"], strict=True):
        above[root(peer)] = root(remote)
    members: dict[str, list[str]] = {}
    for peer in above:
        members.setdefault(root(peer), []).append(peer)
    ordered = sorted(members.values(), key=lambda part: (-len(part), min(part)))
    first = rows.iloc[0]
    table = [
        (first["run"], first["window"], peer, number, int(active.get(peer, 0)))
        for number, part in enumerate(ordered)
        for peer in sorted(part)
    ]
    return pd.DataFrame(table, columns=PLACES.names)


def cuts(
    contacts: DataFrame, explained: DataFrame, there: DataFrame, params: AnswerParams
) -> DataFrame:
    """The table `cuts`: one row for each time that some peers were apart from the others. `there`
    are the `places`."""
    counted = explained.groupBy("run", "window", "part").agg(
        F.count_if(~F.col("lost")).alias("late"), F.count_if("lost").alias("lost")
    )
    cut_runs = counted.select("run").distinct()
    rows = there.where("part > 0").join(F.broadcast(cut_runs), "run")
    rows = rows.join(counted, ["run", "window", "part"], "left")
    of_run_all = there.groupBy("run", "window").agg(F.count("*").alias("peers"))
    rows = rows.join(of_run_all, ["run", "window"])
    linked = contacts.where("received > 0").join(F.broadcast(cut_runs), "run")
    size = int(params.window * SECOND)

    def of_run(rows: pd.DataFrame, linked: pd.DataFrame) -> pd.DataFrame:
        return intervals(rows, linked, size)

    rows, linked = rows.toDF(*rows.columns), linked.toDF(*linked.columns)
    return rows.groupBy("run").cogroup(linked.groupBy("run")).applyInPandas(of_run, CUTS)


def intervals(rows: pd.DataFrame, linked: pd.DataFrame, size: int) -> pd.DataFrame:
    """Rows of `CUTS` for one run: of `rows` (`PLACES` but the largest part, with `late` and `lost`
    of each part that explains any, and how many `peers` there are), parts that are mostly the same
    in consecutive windows of `size` ns together; `linked` are all contacts of the run."""
    found: list[_Cut] = []
    for window, of_window in rows.groupby("window"):
        for _, part in of_window.groupby("part"):
            explains = bool(part["late"].notna().any())
            peers = frozenset(part["peer"])
            stopped = len(peers) == 1 and not part["active"].any()
            kind = "stopped" if stopped else "cut"
            same = [
                cut
                for cut in found
                if cut.kind == kind and cut.end == window and cut.is_mostly(peers)
            ]
            if not same and not explains:
                continue
            cut = same[0] if same else _Cut(kind, int(window), int(window), peers)
            if not same:
                found.append(cut)
            cut.end = int(window) + size
            cut.peers |= peers
            cut.others = max(cut.others, int(part["peers"].iloc[0]) - len(peers))
            cut.late += int(part["late"].iloc[0]) if explains else 0
            cut.lost += int(part["lost"].iloc[0]) if explains else 0
    table = [
        (
            rows["run"].iloc[0], cut.kind, cut.begin, cut.end, sorted(cut.peers)[:SHOWN],
            len(cut.peers), cut.others, _silent(cut, linked), cut.late, cut.lost,
        )
        for cut in found
    ]  # fmt: skip
    return pd.DataFrame(table, columns=CUTS.names)


@dataclass
class _Cut:
    kind: str
    begin: int
    end: int
    peers: frozenset[str]
    others: int = 0
    late: int = 0
    lost: int = 0

    def is_mostly(self, peers: frozenset[str]) -> bool:
        """Whether `peers` are those of this cut, but for some that came or went meanwhile."""
        return 2 * len(self.peers & peers) > len(self.peers | peers)


def _silent(cut: _Cut, linked: pd.DataFrame) -> list[str]:
    """Links over the cut's border that something came over at another time, and nothing then."""
    inside = linked["peer"].isin(cut.peers) != linked["remote"].isin(cut.peers)
    crossing = linked[inside]
    during = (crossing["window"] >= cut.begin) & (crossing["window"] < cut.end)

    def named(rows: pd.DataFrame) -> set[str]:
        pairs = zip(rows["peer"], rows["remote"], strict=True)
        return {" - ".join(sorted(pair)) for pair in pairs}

    return sorted(named(crossing) - named(crossing[during]))[:SHOWN]


def rest(arrivals: DataFrame, explained: DataFrame, params: AnswerParams) -> DataFrame:
    """The table `rest`: of each topic, what is left without what cuts explain."""
    key = ["run", "topic", "message", "peer"]
    left = arrivals.join(explained.select(*key), key, "anti")
    served = F.col("delivered") & ~F.col("origin")
    late = served & (F.col("latency") > int(params.patience * SECOND))
    quantile = "percentile_disc({}) WITHIN GROUP (ORDER BY latency) FILTER (WHERE {})"
    is_served = "delivered AND NOT origin"
    of_cuts = explained.groupBy("run", "topic").agg(F.count("*").alias("explained"))
    made = left.groupBy("run", "topic").agg(
        F.count_if("live").alias("live"),
        F.count_if("delivered").alias("delivered"),
        F.count_if(served).alias("deliveries"),
        F.count_if(late).alias("late"),
        F.expr(quantile.format(0.5, is_served)).alias("latency_p50"),
        F.expr(quantile.format(0.99, is_served)).alias("latency_p99"),
    )
    return made.join(of_cuts, ["run", "topic"], "left").fillna(0, ["explained"])
