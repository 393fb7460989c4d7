"""How far the nodes' clocks are apart, from what they sent to and received from each other.

An RPC can't arrive before it was sent. Let d(a, b) be the least of (received by b's clock - sent by
a's clock) over all RPCs from a to b: b's clock is ahead of a's by at most d(a, b). These are
difference constraints, so the tightest bounds that all of them together give are shortest paths:
with a reference clock r, offset(b) is within [-dist(b, r), dist(r, b)]. The estimate is the middle,
the uncertainty half the width, and both are exact statements as long as clocks don't drift: no
delay is assumed to be symmetric or the same for two messages.

A clock is corrected only if its interval excludes 0, i.e. if it is certainly wrong. One that was
set during the run contradicts itself: to its partners and back takes less than no time. It has no
offset, and the others are estimated without it. Where either of two may have been set, both count
as set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType
from scipy.sparse import coo_array
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

from episub_router.pipeline.engine import grouped

CLOCKS = StructType(
    [
        StructField("run", StringType(), False),
        StructField("peer", StringType(), False),
        StructField("reference", StringType(), False),  # the clock that offsets are from
        StructField("offset", LongType(), True),  # ns that the peer's clock is ahead
        StructField("uncertainty", LongType(), True),  # ns; the truth is offset ± uncertainty
        StructField("correction", LongType(), False),  # ns taken off the peer's times
        StructField("exchanges", LongType(), False),  # matched sends and receipts
        StructField("note", StringType(), True),
    ]
)
"""One row per peer that exchanged anything that both ends traced. `offset` is null where the
exchanges don't bound it from both sides, and where they contradict each other."""

SET = "contradictory: a clock was set during the run"
"""The note of a clock that has no offset because it has several."""

_ALONE = "none of those that it exchanged anything with has a sound clock"

ENOUGH = 2_000_000
"""RPCs of a run that are matched: with 1,000 peers of 10 neighbours, a hundred each way."""


def is_end() -> Column:
    """Whether an event is one end of an exchange."""
    return F.col("event").isin("send", "recv") & F.col("remote").isNotNull()


def exchanges(events: DataFrame, rpcs: Mapping[str, int] | None = None) -> DataFrame:
    """RPCs that were traced at both ends: run, sender, receiver, sent, received.

    They are matched by what is in them: the sequence number of an Episub frame, else each id of a
    message and what it was named in. What either end saw twice is left out. Of a run with more
    than ENOUGH traced RPCs it is a sample, by a hash of what is matched, so that both ends of an
    exchange are in it or neither. `rpcs` is how many such RPCs each run has, if that is known.
    """
    return matched(ends(events, rpcs))


def ends(events: DataFrame, rpcs: Mapping[str, int] | None = None) -> DataFrame:
    """What RPCs were traced to have in them, at either end: run, sender, receiver, sent, received
    (one of them is null), what (a hash). `rpcs` is as in `exchanges`."""
    is_send = F.col("event") == "send"
    traced = events.where(is_end()).select(
        "run",
        F.when(is_send, F.col("peer")).otherwise(F.col("remote")).alias("sender"),
        F.when(is_send, F.col("remote")).otherwise(F.col("peer")).alias("receiver"),
        F.when(is_send, F.col("time")).alias("sent"),
        F.when(~is_send, F.col("time")).alias("received"),
        "topic",
        "seq",
        "parts",
    )
    ids = F.filter("parts", lambda part: part["messages"].isNotNull())
    named = F.flatten(
        F.transform(
            ids,
            lambda part: F.transform(
                part["messages"], lambda message: F.concat(part["kind"], F.lit(" "), message)
            ),
        )
    )
    framed = F.array(F.concat_ws(" ", F.lit("frame"), "topic", F.col("seq").cast("string")))
    keyed = _sampled(traced, rpcs).select(
        "run",
        "sender",
        "receiver",
        "sent",
        "received",
        F.explode(F.when(F.col("seq").isNotNull(), framed).otherwise(named)).alias("what"),
    )
    # The text would be held for each of millions of RPCs; its hash does.
    return keyed.withColumn("what", F.xxhash64("what"))


def _sampled(traced: DataFrame, rpcs: Mapping[str, int] | None) -> DataFrame:
    # By what is the same at both ends, and costs less than all that an RPC names.
    first = F.coalesce(F.col("seq").cast("string"), F.get(F.get("parts", F.lit(0))["messages"], 0))
    if rpcs is None:
        sizes = traced.groupBy("run").agg(F.ceil(F.count("*") / ENOUGH).alias("one_in"))
        traced = traced.join(F.broadcast(sizes), "run")
        one_in = F.col("one_in")
    else:
        large = {run: -(-count // ENOUGH) for run, count in rpcs.items() if count > ENOUGH}
        if not large:
            return traced
        rates = F.create_map(*(F.lit(part) for pair in large.items() for part in pair))
        one_in = F.coalesce(F.try_element_at(rates, F.col("run")), F.lit(1))
    return traced.where((one_in == 1) | (F.pmod(F.xxhash64(first), one_in) == 0))


def matched(ends: DataFrame) -> DataFrame:
    """`exchanges` from `ends`."""
    return (
        ends.groupBy("run", "sender", "receiver", "what")
        .agg(
            F.count("sent").alias("sends"),
            F.count("received").alias("receipts"),
            F.min("sent").alias("sent"),
            F.min("received").alias("received"),
        )
        .where((F.col("sends") == 1) & (F.col("receipts") == 1))
        .select("run", "sender", "receiver", "sent", "received")
    )


def clocks(exchanged: DataFrame) -> DataFrame:
    """The offset of every clock (`CLOCKS`) from `exchanges`."""
    delays = exchanged.groupBy("run", "sender", "receiver").agg(
        F.min(F.col("received") - F.col("sent")).alias("delay"), F.count("*").alias("exchanges")
    )
    return grouped(delays, ["run"], solve, CLOCKS)


def solve(delays: pd.DataFrame) -> pd.DataFrame:
    """The clocks of one run: rows of `CLOCKS` from columns run, sender, receiver, delay (ns),
    exchanges."""
    peers = sorted(set(delays["sender"]) | set(delays["receiver"]))
    place = {peer: index for index, peer in enumerate(peers)}
    sender = delays["sender"].map(place).to_numpy()
    receiver = delays["receiver"].map(place).to_numpy()
    size = len(peers)
    exchanged = np.zeros(size, dtype=np.int64)
    np.add.at(exchanged, sender, delays["exchanges"].to_numpy())
    np.add.at(exchanged, receiver, delays["exchanges"].to_numpy())
    # An entry of zero would be no edge at all; half a nanosecond is one.
    weights = delays["delay"].to_numpy(dtype=np.float64)
    weights = np.where(weights == 0, 0.5, weights)
    was_set = _set_during_the_run(weights, sender, receiver, size)
    sound = ~(was_set[sender] | was_set[receiver])
    edges = (weights[sound], (sender[sound], receiver[sound]))
    graph = coo_array(edges, shape=(size, size)).tocsr()
    rows = [(int(peer), peer, None, None, 0, SET) for peer in np.flatnonzero(was_set)]
    count, label = connected_components(graph, directed=False)
    for component in range(count):
        members = np.flatnonzero((label == component) & ~was_set)
        if len(members) < 2:
            rows += [(int(peer), peer, None, None, 0, _ALONE) for peer in members]
            continue
        reference = members[np.argmax(exchanged[members])]
        rows += _component(graph, members, int(reference))
    run = delays["run"].iloc[0]
    table = [
        (run, peers[peer], peers[reference], *rest, int(exchanged[peer]), note)
        for peer, reference, *rest, note in rows
    ]
    made = pd.DataFrame(table, columns=CLOCKS.names)
    return made.astype({"offset": "Int64", "uncertainty": "Int64"})


def _set_during_the_run(weights: Any, sender: Any, receiver: Any, size: int) -> Any:
    """Which of `size` peers contradict themselves: one whose clock was set contradicts all
    of its partners, and others only those among theirs. So it is the peers that contradict the
    largest share of their partners, of these the most, and all of them where that
    is the same, until nobody contradicts anybody."""
    there = coo_array((weights, (sender, receiver)), shape=(size, size)).tocsr()
    both = (there != 0).multiply((there != 0).T)
    wrong = ((there.multiply(both) + there.T.multiply(both)) < 0).tolil()
    partners = np.maximum(both.sum(axis=0), 1)
    was_set = np.zeros(size, dtype=bool)
    while (contradictions := wrong.sum(axis=0)).any():
        shares = contradictions / partners
        most = contradictions[shares == shares.max()].max()
        worst = np.flatnonzero((shares == shares.max()) & (contradictions == most))
        was_set[worst] = True
        wrong[worst, :] = False
        wrong[:, worst] = False
    return was_set


def _component(graph: Any, members: Any, reference: int) -> list[tuple[Any, ...]]:
    """(peer, reference, offset, uncertainty, correction, note) of each of `members`."""
    try:
        ahead = bellman_ford(graph, indices=reference)
        behind = bellman_ford(graph.T.tocsr(), indices=reference)
    except NegativeCycleError:
        return [(int(peer), reference, None, None, 0, SET) for peer in members]
    rows: list[tuple[Any, ...]] = []
    for peer in members:
        low, high = -behind[peer], ahead[peer]
        if peer == reference:
            low = high = 0.0
        if not (np.isfinite(low) and np.isfinite(high)):
            rows.append((int(peer), reference, None, None, 0, "bounded from one side only"))
            continue
        offset, uncertainty = round((low + high) / 2), int(np.ceil((high - low) / 2))
        correction = 0 if low <= 0 <= high else offset
        rows.append((int(peer), reference, offset, uncertainty, correction, None))
    return rows


def corrected(events: DataFrame, clocks: DataFrame) -> DataFrame:
    """`events` on one clock, with `correction`, the nanoseconds that were taken off."""
    wrong = clocks.where(F.col("correction") != 0).select("run", "peer", "correction")
    return (
        events.join(F.broadcast(wrong), ["run", "peer"], "left")
        .withColumn("correction", F.coalesce("correction", F.lit(0).cast("long")))
        .withColumn("time", F.col("time") - F.col("correction"))
    )
