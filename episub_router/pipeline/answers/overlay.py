"""The overlay at the end of each window: degrees, symmetry, clustering, paths, components,
proximity. The formulas are the simulator's (`sim.metrics.overlay`)."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.sim.metrics import overlay as graphs

OVERLAY = StructType(
    [
        StructField("run", StringType(), False),
        StructField("topic", StringType(), True),
        StructField("kind", StringType(), False),  # of the links: active, eager, lazy, stream
        StructField("time", LongType(), False),
        StructField("nodes", LongType(), False),
        StructField("links", LongType(), False),  # directed
        StructField("degree_mean", DoubleType(), False),
        StructField("degree_min", LongType(), False),
        StructField("degree_max", LongType(), False),
        StructField("degrees", ArrayType(LongType()), False),  # nodes by out-degree, from 0
        StructField("symmetry", DoubleType(), False),
        StructField("clustering", DoubleType(), False),
        StructField("average_shortest_path", DoubleType(), False),
        StructField("components", LongType(), False),
        StructField("largest_component", LongType(), False),
        StructField("proximity_ratio", DoubleType(), True),
    ]
)


def overlay(
    links: DataFrame,
    subscriptions: DataFrame,
    rtts: DataFrame,
    spans: DataFrame,
    params: AnswerParams,
) -> DataFrame:
    """The table `overlay`. `spans` has run, begin, end, settled (ns): the looks are at the ends of
    windows up to `settled`, or of some windows each where there are more than `looks`, and then."""
    looks = _looks(spans, params)
    at = (F.col("since") <= F.col("time")) & (
        F.col("until").isNull() | (F.col("until") > F.col("time"))
    )
    seen = links.join(F.broadcast(looks), "run").where(at)
    nodes = subscriptions.join(F.broadcast(looks), "run").where(at)
    mean_rtt = rtts.groupBy("run", "peer", "remote").agg(F.avg("rtt").alias("rtt"))
    edges = seen.join(mean_rtt, ["run", "peer", "remote"], "left").select(
        "run", "topic", "kind", "time", "peer", "remote", "rtt"
    )
    kinds = edges.select("run", "topic", "kind").distinct()
    present = nodes.select("run", "topic", "time", "peer").distinct()
    # Streams have no topic: their nodes are all that are there.
    members = present.join(kinds, ["run", "topic"]).unionByName(
        present.drop("topic")
        .distinct()
        .join(kinds.where(F.col("topic").isNull()), "run")
        .select("run", "topic", "time", "peer", "kind")
    )
    rows = edges.unionByName(
        members.select(
            "run", "topic", "kind", "time", "peer",
            F.lit(None).cast("string").alias("remote"),
            F.lit(None).cast("double").alias("rtt"),
        )
    )  # fmt: skip
    all_pairs = mean_rtt.groupBy("run").agg(F.avg("rtt").alias("rtt_of_all"))
    rows = rows.join(F.broadcast(all_pairs), "run", "left")
    return grouped(rows, ["run", "topic", "kind", "time"], measure(params.path_sources), OVERLAY)


def _looks(spans: DataFrame, params: AnswerParams) -> DataFrame:
    begin, end, size = F.col("begin"), F.col("settled"), int(params.window * SECOND)
    windows = F.ceil((end - begin) / (size * params.looks))
    step = F.greatest(windows, F.lit(1).cast("long")) * size
    first = begin - F.pmod(begin, step) + step
    ticks = F.when(first <= end, F.sequence(first, end, step))
    none = F.array().cast("array<bigint>")
    times = F.array_union(F.coalesce(ticks, none), F.array(end))
    return spans.select("run", F.explode(times).alias("time"))


def measure(path_sources: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function from the rows of one look (run, topic, kind, time, peer, remote, rtt,
    rtt_of_all; a member without links has a row without `remote`) to its row of `OVERLAY`.

    Links from or to a peer that isn't a member, and to itself, are left out.
    """

    def of_one(rows: pd.DataFrame) -> pd.DataFrame:
        first = rows.iloc[0]
        members = set(rows.loc[rows["remote"].isna(), "peer"])
        edges = rows[rows["remote"].notna() & rows["peer"].isin(members)]
        edges = edges[edges["peer"] != edges["remote"]]
        neighbours: dict[str, list[str]] = {peer: [] for peer in members}
        for peer, remote in zip(edges["peer"], edges["remote"], strict=True):
            neighbours[peer].append(remote)
        matrix, ids = graphs.adjacency(neighbours)  # type: ignore[arg-type]
        if not ids:
            return pd.DataFrame(columns=OVERLAY.names)
        out, _ = graphs.degrees(matrix)
        by_name = sorted(range(len(ids)), key=lambda row: crc32(str(ids[row]).encode()))
        hops = graphs.shortest_paths(matrix, sorted(by_name[:path_sources]))
        sizes = graphs.component_sizes(matrix)
        known = edges.loc[edges["remote"].isin(members), "rtt"].dropna()
        of_all = first["rtt_of_all"]
        values = (
            first["run"], first["topic"], first["kind"], int(first["time"]), len(ids),
            int(matrix.nnz), float(out.mean()), int(out.min()), int(out.max()),
            np.bincount(out).tolist(), graphs.symmetry(matrix), graphs.clustering(matrix),
            graphs.average_shortest_path(hops), len(sizes), sizes[0],
            float(known.mean() / of_all) if len(known) and of_all > 0 else None,
        )  # fmt: skip
        return pd.DataFrame([values], columns=OVERLAY.names)

    return of_one
