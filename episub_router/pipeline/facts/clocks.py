"""How far the nodes' clocks are apart, from what they sent to and received from each other.

An RPC can't arrive before it was sent. Let d(a, b) be the least of (received by b's clock - sent by
a's clock) over all RPCs from a to b: b's clock is ahead of a's by at most d(a, b). These are
difference constraints, so the tightest bounds that all of them together give are shortest paths:
with a reference clock r, offset(b) is within [-dist(b, r), dist(r, b)]. The estimate is the middle,
the uncertainty half the width, and both are exact statements as long as clocks don't drift: no
delay is assumed to be symmetric or the same for two messages.

A clock is corrected only if its interval excludes 0, i.e. if it is certainly wrong. One that drifts
or was set during the run contradicts itself: to its partners and back takes less than no time. If
a line of time fits between what its partners' RPCs bound it to from above and from below, the clock
drifts, and the line that leaves most room to both sides is taken off. If none does, it was set: it
has no offset, and the others are estimated without it. Where either of two may be wrong, both are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from scipy.sparse import coo_array, triu
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.sql import grouped_by, schema_of

CLOCKS = schema_of(
    "run peer reference string offset uncertainty correction long drift double since exchanges "
    "long note string"
)
"""One row per peer that exchanged anything that both ends traced. `offset` (ns) is how far the
peer's clock is ahead of that of `reference`, by `uncertainty` more or less; null where the
exchanges don't bound it from both sides, and where they contradict each other. `correction`, and
`drift` times what has passed after `since` (ns), are taken off the peer's times."""

SET = "contradictory: a clock was set during the run"
"""The note of a clock that has no offset because it has several."""

_ONE_SIDED = "bounded from one side only"
_ALONE = "none of those that it exchanged anything with has a sound clock"

SLICE = 10_000_000_000
"""ns, of which the least delay counts: clocks that drift do so by some 100 µs in it."""

FASTEST = 500e-6
"""The drift of a clock at most: what NTP slews one by. A faster one was set."""
_FINE = 1e-10
"""Drift that makes no difference: a microsecond in three hours."""

ENOUGH = 2_000_000
"""RPCs of a run that are matched: with 1,000 peers of 10 neighbours, a hundred each way."""


def exchanges(traced: DataFrame) -> DataFrame:
    """RPCs that were traced at both ends: run, sender, receiver, sent, received.

    They are matched by what is in them: the sequence number of an Episub frame, else each id of a
    message and what it was named in. What either end saw twice is left out. Of a run with more
    than ENOUGH traced RPCs it is a sample, by a hash of what is matched, so that both ends of an
    exchange are in it or neither.
    """
    return matched(ends(traced))


def ends(events: DataFrame) -> DataFrame:
    """What RPCs were traced to have in them, at either end: run, sender, receiver, sent, received
    (one of them is null), what (a hash)."""
    sends = "event = 'send'"
    traced = events.where("event IN ('send', 'recv') AND remote IS NOT NULL").selectExpr(
        "run", f"if({sends}, peer, remote) AS sender", f"if({sends}, remote, peer) AS receiver",
        f"if({sends}, time, NULL) AS sent", f"if({sends}, NULL, time) AS received", "topic", "seq",
        "parts",
    )  # fmt: skip
    named = F.flatten(F.transform(
        F.filter("parts", lambda part: part["messages"].isNotNull()),
        lambda part: F.transform(
            part["messages"], lambda message: F.concat(part["kind"], F.lit(" "), message)
        ),
    ))  # fmt: skip
    framed = F.array(F.concat_ws(" ", F.lit("frame"), "topic", F.col("seq").cast("string")))
    what = F.explode(F.when(F.col("seq").isNotNull(), framed).otherwise(named))
    keyed = _sampled(traced).select(
        "run", "sender", "receiver", "sent", "received", what.alias("what")
    )
    # The text would be held for each of millions of RPCs; its hash does.
    return keyed.withColumn("what", F.xxhash64("what"))


def _sampled(traced: DataFrame) -> DataFrame:
    # By what is the same at both ends, and costs less than all that an RPC names.
    first = F.coalesce(F.col("seq").cast("string"), F.get(F.get("parts", F.lit(0))["messages"], 0))
    sizes = traced.groupBy("run").agg(F.ceil(F.count("*") / ENOUGH).alias("one_in"))
    chosen = (F.col("one_in") == 1) | (F.pmod(F.xxhash64(first), "one_in") == 0)
    return traced.join(F.broadcast(sizes), "run").where(chosen)


def matched(ends: DataFrame) -> DataFrame:
    """`exchanges` from `ends`."""
    pairs = grouped_by(
        ends, ["run", "sender", "receiver", "what"], sends="count(sent)",
        receipts="count(received)", sent="min(sent)", received="min(received)",
    )  # fmt: skip
    return pairs.where("sends = 1 AND receipts = 1").drop("what", "sends", "receipts")


def clocks(exchanges: DataFrame) -> DataFrame:
    """The offset of every clock (`CLOCKS`) from `exchanges`."""
    sliced = exchanges.withColumn("slice", F.floor(F.col("sent") / SLICE))
    least = grouped_by(
        sliced, ["run", "sender", "receiver", "slice"], exchanges="count(*)",
        least="min(struct(received - sent AS delay, sent AS time))",
    )  # fmt: skip
    delays = least.select("run", "sender", "receiver", "least.*", "exchanges")
    return grouped(delays, ["run"], solve, CLOCKS)


def solve(delays: pd.DataFrame) -> pd.DataFrame:
    """The clocks of one run: rows of `CLOCKS` from columns run, sender, receiver, delay (ns), time
    (of the sending, by the sender's clock), exchanges."""
    known = _Delays(delays)
    contradict = known.contradictions()
    # Those that drift explains are no reason to take a clock for one that was set.
    unexplained = contradict.copy()
    for a, b in zip(*triu(contradict).nonzero(), strict=True):
        unexplained[a, b] = unexplained[b, a] = known.line(b, {int(a): (0.0, 0.0, 0.0, 0)})[2] < 0
    was_set = known.culprits(unexplained)
    contradict[was_set, :] = False
    contradict[:, was_set] = False
    drifts = known.culprits(contradict)
    found: dict[int, _Clock] = {}
    for peer in np.flatnonzero(was_set).tolist():
        found[peer] = (peer, None, None, 0, 0.0, 0, SET)
    found |= known.steady(~was_set & ~drifts)
    if drifts.any():
        found |= known.drifting(found, ~was_set)
    rows = []
    for peer, name in enumerate(known.peers):
        alone = (peer, None, None, 0, 0.0, 0, _ALONE)
        reference, *rest, note = found.get(peer, alone)
        exchanged = int(known.exchanged[peer])
        row = (known.run, name, known.peers[reference], *rest, exchanged, note)
        rows.append(row)
    return pd.DataFrame(rows, columns=CLOCKS.names).astype(
        {"offset": "Int64", "uncertainty": "Int64"}
    )


_Clock = tuple[int, int | None, int | None, int, float, int, str | None]
"""Reference, offset, uncertainty, correction, drift, since, note."""

_Line = tuple[float, float, float, int]
"""How far a clock is ahead of the reference at some time of its own, in ns; what that grows by each
ns; by how much it may be off; and that time."""


class _Delays:
    """What was measured between the `peers` of a run."""

    def __init__(self, delays: pd.DataFrame) -> None:
        self.run = delays["run"].iloc[0]
        self.peers = sorted(set(delays["sender"]) | set(delays["receiver"]))
        place = {peer: index for index, peer in enumerate(self.peers)}
        self._sender = delays["sender"].map(place).to_numpy()
        self._receiver = delays["receiver"].map(place).to_numpy()
        self._delay = delays["delay"].to_numpy(dtype=np.int64)
        self._time = delays["time"].to_numpy(dtype=np.int64)
        self._count = delays["exchanges"].to_numpy()
        size = len(self.peers)
        self.exchanged = np.zeros(size, dtype=np.int64)
        for end in (self._sender, self._receiver):
            np.add.at(self.exchanged, end, self._count)
        links = pd.Series(self._delay).groupby([self._sender, self._receiver]).min()
        self._from, self._to = (links.index.get_level_values(n).to_numpy() for n in (0, 1))
        # An entry of zero would be no edge at all; half a nanosecond is one.
        weights = links.to_numpy(dtype=np.float64)
        self._least = np.where(weights == 0, 0.5, weights)
        self._graph = self._links(np.ones(size, dtype=bool))
        self._both = (self._graph != 0).multiply((self._graph != 0).T)

    def _links(self, members: Any) -> Any:
        """The least delays between `members`."""
        inside = members[self._from] & members[self._to]
        edges = self._least[inside], (self._from[inside], self._to[inside])
        return coo_array(edges, shape=(len(self.peers),) * 2).tocsr()

    def contradictions(self) -> Any:
        """Which two contradict each other, if neither drifts."""
        there = self._graph.multiply(self._both)
        return (there + there.T < 0).tolil()

    def culprits(self, wrong: Any) -> Any:
        """Which peers are to blame where each of two contradicts the other. A wrong clock
        contradicts all of its partners, and others only those among theirs. So it is the peers that
        contradict the largest share of their partners, of these the most, and all of them where
        that is the same, until nobody contradicts anybody."""
        wrong = wrong.copy()
        partners = np.maximum(self._both.sum(axis=0), 1)
        blamed = np.zeros(len(self.peers), dtype=bool)
        while (contradictions := wrong.sum(axis=0)).any():
            shares = contradictions / partners
            most = contradictions[shares == shares.max()].max()
            worst = np.flatnonzero((shares == shares.max()) & (contradictions == most))
            blamed[worst] = True
            wrong[worst, :] = False
            wrong[:, worst] = False
        return blamed

    def steady(self, members: Any) -> dict[int, _Clock]:
        """The clocks of those of `members` that exchanged anything with another of them."""
        graph = self._links(members)
        count, label = connected_components(graph, directed=False)
        found: dict[int, _Clock] = {}
        for component in range(count):
            inside = np.flatnonzero((label == component) & members)
            if len(inside) > 1:
                reference = int(inside[np.argmax(self.exchanged[inside])])
                found |= _component(graph, inside, reference)
        return found

    def drifting(self, found: dict[int, _Clock], members: Any) -> dict[int, _Clock]:
        """The clocks of `members` that aren't `found`, one after the other, from those that are."""
        made: dict[int, _Clock] = {}
        lines: dict[int, _Line] = {
            peer: (float(offset), 0.0, float(uncertainty or 0), 0)
            for peer, (_, offset, uncertainty, *_) in found.items()
            if offset is not None
        }
        left = [peer for peer in np.flatnonzero(members).tolist() if peer not in found]
        if not lines and left:
            first = max(left, key=lambda peer: int(self.exchanged[peer]))
            made[first] = (first, 0, 0, 0, 0.0, 0, None)
            lines[first] = (0.0, 0.0, 0.0, 0)
            left.remove(first)
        reference = {peer: (found | made)[peer][0] for peer in lines}
        while left:
            known = np.isin(np.arange(len(self.peers)), list(lines))
            counts = np.zeros(len(self.peers), dtype=np.int64)
            np.add.at(counts, self._receiver, self._count * known[self._sender])
            np.add.at(counts, self._sender, self._count * known[self._receiver])
            peer = max(left, key=lambda peer: int(counts[peer]))
            if not counts[peer]:
                break
            left.remove(peer)
            partners = self._partners(peer) & lines.keys()
            of = reference[max(partners, key=lambda other: int(self.exchanged[other]))]
            same = {other: lines[other] for other in partners if reference[other] == of}
            offset, drift, room, since = self.line(peer, same)
            if not np.isfinite(room):
                made[peer] = (of, None, None, 0, 0.0, 0, _ONE_SIDED)
            elif room < 0:
                made[peer] = (peer, None, None, 0, 0.0, 0, SET)
            else:
                lines[peer], reference[peer] = (offset, drift, room, since), of
                said = f"drifts by {drift * 1e6:+.2f} ppm"
                at = round(offset)
                made[peer] = (of, at, int(np.ceil(room)), at, drift, since, said)
        return made

    def _partners(self, peer: int) -> set[int]:
        return {*self._from[self._to == peer].tolist(), *self._to[self._from == peer].tolist()}

    def line(self, peer: int, known: Mapping[int, _Line]) -> _Line:
        """The line of `peer`'s clock that leaves most room to what the clocks `known` bound it to;
        less than none where none fits, and no end of it where they bound it from one side only."""
        is_known = np.isin(np.arange(len(self.peers)), list(known))
        came = (self._receiver == peer) & is_known[self._sender]
        went = (self._sender == peer) & is_known[self._receiver]
        own = np.concatenate([(self._time + self._delay)[came], self._time[went]])
        others = np.concatenate([self._time[came], (self._time + self._delay)[went]])
        names = np.concatenate([self._sender[came], self._receiver[went]])
        if not (came.any() and went.any()):
            return 0.0, 0.0, np.inf, 0
        since = int((own.min() + own.max()) // 2)
        offset, drift, room, begin = np.array([known[name] for name in names.tolist()]).T
        ahead = offset + drift * (others - begin.astype(np.int64))
        count = int(came.sum())
        top = ahead[:count] + room[:count] + self._delay[came]
        bottom = ahead[count:] - room[count:] - self._delay[went]
        at, slope, width = _widest(own[:count] - since, top, own[count:] - since, bottom)
        return at, slope, width, since


def _widest(above: Any, top: Any, below: Any, bottom: Any) -> tuple[float, float, float]:
    """Offset, slope and room to both sides of the line between the points (above, top) and
    (below, bottom) that has most room. The room is a concave function of the slope."""
    low, high = -FASTEST, FASTEST
    while True:
        slopes = np.linspace(low, high, 65)
        highest = (top - slopes[:, None] * above).min(axis=1)
        lowest = (bottom - slopes[:, None] * below).max(axis=1)
        room = highest - lowest
        best = np.lexsort((np.abs(slopes), -room))[0]
        step = slopes[1] - slopes[0]
        if step < _FINE:
            offset = (highest[best] + lowest[best]) / 2
            return float(offset), float(slopes[best]), float(room[best] / 2)
        low, high = slopes[best] - step, slopes[best] + step


def _component(graph: Any, members: Any, reference: int) -> dict[int, _Clock]:
    """The clocks of `members`, by shortest paths from and to the reference."""
    try:
        ahead = bellman_ford(graph, indices=reference)
        behind = bellman_ford(graph.T.tocsr(), indices=reference)
    except NegativeCycleError:
        return {int(peer): (reference, None, None, 0, 0.0, 0, SET) for peer in members}
    found: dict[int, _Clock] = {}
    for peer in members.tolist():
        low, high = -behind[peer], ahead[peer]
        if peer == reference:
            low = high = 0.0
        if not (np.isfinite(low) and np.isfinite(high)):
            found[peer] = reference, None, None, 0, 0.0, 0, _ONE_SIDED
            continue
        offset, uncertainty = round((low + high) / 2), int(np.ceil((high - low) / 2))
        correction = 0 if low <= 0 <= high else offset
        found[peer] = reference, offset, uncertainty, correction, 0.0, 0, None
    return found


def corrected(traced: DataFrame, clocks: DataFrame) -> DataFrame:
    """What was `traced`, on one clock, with `correction`, the nanoseconds that were taken off."""
    wrong = clocks.where("correction != 0 OR drift != 0").selectExpr(
        "run", "peer", "correction AS constant", "drift", "since"
    )
    off = "coalesce(constant + bigint(round(drift * (time - since))), 0)"
    return (
        traced.join(F.broadcast(wrong), ["run", "peer"], "left")
        .withColumn("correction", F.expr(off))
        .withColumn("time", F.col("time") - F.col("correction"))
        .drop("constant", "drift", "since")
    )
