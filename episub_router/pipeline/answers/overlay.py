"""The overlay at the end of each window: degrees, symmetry, clustering, paths, components,
proximity. The formulas are the simulator's (`sim.metrics.overlay`)."""

from zlib import crc32

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import grouped_by, schema_of
from episub_router.sim.metrics import overlay as graphs

OVERLAY = schema_of(
    "run topic kind string time nodes links long degree_mean double degree_min degree_max long "
    "degrees longs symmetry clustering average_shortest_path double components largest_component "
    "long proximity_ratio double"
)
"""`kind` is of the links: active, eager, lazy, stream. `links` are directed, `degrees` the nodes by
out-degree, from 0."""


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
    at = "since <= time AND (until IS NULL OR until > time)"
    seen = links.join(F.broadcast(looks), "run").where(at)
    nodes = subscriptions.join(F.broadcast(looks), "run").where(at)
    mean_rtt = grouped_by(rtts, ["run", "peer", "remote"], rtt="avg(rtt)")
    edges = seen.join(mean_rtt, ["run", "peer", "remote"], "left").select(
        "run", "topic", "kind", "time", "peer", "remote", "rtt"
    )
    kinds = edges.select("run", "topic", "kind").distinct()
    present = nodes.select("run", "topic", "time", "peer").distinct()
    # Streams have no topic: their nodes are all that are there.
    of_all = present.drop("topic").distinct().join(kinds.where("topic IS NULL"), "run")
    members = present.join(kinds, ["run", "topic"]).unionByName(of_all)
    rows = edges.unionByName(members, allowMissingColumns=True)
    all_pairs = grouped_by(mean_rtt, ["run"], rtt_of_all="avg(rtt)")
    rows = rows.join(F.broadcast(all_pairs), "run", "left")
    key = ["run", "topic", "kind", "time"]
    return grouped(rows, key, lambda look: measure(look, params.path_sources), OVERLAY)


def _looks(spans: DataFrame, params: AnswerParams) -> DataFrame:
    begin, end, size = F.col("begin"), F.col("settled"), int(params.window * SECOND)
    windows = F.ceil((end - begin) / (size * params.looks))
    step = F.greatest(windows, F.lit(1).cast("long")) * size
    first = begin - F.pmod(begin, step) + step
    ticks = F.when(first <= end, F.sequence(first, end, step))
    none = F.array().cast("array<bigint>")
    times = F.array_union(F.coalesce(ticks, none), F.array(end))
    return spans.select("run", F.explode(times).alias("time"))


def measure(rows: pd.DataFrame, path_sources: int) -> pd.DataFrame:
    """The row of `OVERLAY` of the rows of one look: run, topic, kind, time, peer, remote, rtt,
    rtt_of_all; a member without links has a row without `remote`.

    Links from or to a peer that isn't a member, and to itself, are left out.
    """
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
