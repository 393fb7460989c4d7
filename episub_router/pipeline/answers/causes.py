"""Why a message came late or not at all: one cause for each pair of a message and a peer.

A pair is judged by what was the case between the publishing and the deadline after it, and of the
first three by what was so for most of that time:

1. `down`: the peer wasn't running (a new process of it starts later, or none does), or the
   publisher went before anybody had the message.
2. `stopped`: the peer traced nothing and answered nothing for longer than the deadline, and then
   the same process went on; or the publisher did, before anybody had the message.
3. `cut`: no chain of receipts leads from the publisher to the peer in that time. Those that it
   leads to, and the others, are the two sides; the cut goes from the last receipt over its border
   to the next one.
4. `joining`: the peer had no link yet.
5. `slow`: over one link of its way the message took most of the deadline between sending and
   receipt, or waited for it at the sender, or its queue was full; or the receiver asked for it late
   while other messages to it took so long, as announcements do, too. If one of the two was down,
   stopped or cut off meanwhile, that is the cause.
6. `overlay`: nothing of that. The router lost it, or was late to send it.
7. `unknown`: nothing of that, and the traces lack what would say it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from episub_router.pipeline.engine import grouped
from episub_router.pipeline.facts.evidence import NEVER
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.sql import at_rank, grouped_by, ranked, schema_of

FAULTS = ("down", "stopped", "cut")
"""Causes that last, and concern peers as such."""

SHOWN = 100
"""Peers of a fault that are named at most."""

JUDGED = schema_of(
    "run topic message peer string published latency long cause string fault long sender receiver "
    "detail string begin end calm long peers strings count others late lost long"
)
"""Pairs with their causes, and the faults that are some of them: rows without `message`. `latency`
(ns) is null where it never came, `fault` the number in its run; `sender` and `receiver` are the
link on which it was late. Of a fault, `begin` and `end` (null: it lasts to the end of the run),
`calm`, since when all came in time again, `peers`, the smaller side, SHOWN at most, and their
`count`."""

_FOREVER = 2**62

_COLUMNS = ("message", "a", "b", "first", "last", "since")

_FULL = "the sender's queue was full"

_UNUSUAL = 4
"""Times what nine of ten of its silences are, from which on a peer was stopped. Chosen: an idle one
isn't."""


Found = tuple[str, "Fault | None", int | None, int | None, str | None]
"""A cause, its fault, the link on which it was late, and what is known more."""


@dataclass
class Fault:
    """Peers that weren't there, or were apart from the others. Times are ns."""

    cause: str
    begin: int
    end: int
    peers: frozenset[int]
    others: frozenset[int]
    detail: str = ""
    pairs: list[bool] = field(default_factory=list)
    """Of each pair that it explains, whether it was lost."""

    def overlaps(self, begin: int, end: int) -> bool:
        return self.begin < end and begin < self.end

    def parts(self, one: int, other: int) -> bool:
        """Whether they are on its two sides; who wasn't there is on neither."""
        sides = (one in self.peers, other in self.peers)
        return sides[0] != sides[1] and {one, other} <= self.peers | self.others

    def is_mostly(self, peers: frozenset[int]) -> bool:
        """Whether `peers` are those of this fault, but for some that came or went meanwhile."""
        return 2 * len(self.peers & peers) > len(self.peers | peers)


def judge(rows: pd.DataFrame, params: AnswerParams) -> pd.DataFrame:
    """The rows of `JUDGED` that follow from the evidence of one run (`facts.evidence`)."""
    rows = rows.reset_index(drop=True)
    table = list(_Trial(rows, params).rows()) if (rows["kind"] == "trouble").any() else []
    return pd.DataFrame(table, columns=JUDGED.names).astype(
        {f.name: "Int64" for f in JUDGED.fields if f.dataType == LongType()}
    )


class _Trial:
    """The evidence of a run, by number of peer, and what follows from it."""

    def __init__(self, rows: pd.DataFrame, params: AnswerParams) -> None:
        self._run = rows["run"].iloc[0]
        self._deadline = int(params.deadline * SECOND)
        self._margin = int(params.patience * SECOND)
        codes, names = pd.factorize(pd.concat([rows["a"], rows["b"]]), sort=True)
        self._names = list(names)
        rows = rows.assign(a=codes[: len(rows)], b=codes[len(rows) :])
        self._of = {str(kind): of_kind for kind, of_kind in rows.groupby("kind")}
        self._troubles = self._kind("trouble").sort_values(["first", "message", "b"])
        contacts = self._kind("contact").sort_values("first")
        self._a, self._b, self._first, self._last = (
            contacts[name].to_numpy(np.int64) for name in ("a", "b", "first", "last")
        )
        self._pulses = {
            int(peer): one.sort_values("first")[["first", "last", "since"]].to_numpy(np.int64)
            for peer, one in self._kind("pulse").groupby("a")
        }
        begin = min((int(pulses[0, 0]) for pulses in self._pulses.values()), default=0)
        self._over = max((int(pulses[-1, 1]) for pulses in self._pulses.values()), default=0)
        self._deliveries: dict[Any, dict[int, tuple[int, int]]] = defaultdict(dict)
        for message, parent, peer, time in self._columns("delivery"):
            self._deliveries[message][peer] = parent, time
        self._sends, self._written = self._firsts("sent"), self._firsts("written")
        self._drops, self._asks = self._firsts("drop"), self._firsts("asked")
        self._slow: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """From when to when a message was under way to a peer that took most of the deadline."""
        for (message, peer), senders in self._sends.items():
            parent, got = self._deliveries.get(message, {}).get(peer, (-1, 0))
            sent = senders.get(parent, got)
            if 2 * (got - sent) > self._deadline:
                self._slow[peer].append((sent, got))
        counts = np.bincount(self._b, contacts["since"].astype(float), len(self._names))
        often = counts * self._deadline >= self._over - begin
        self._talkative = frozenset(np.flatnonzero(often).tolist())
        """Peers that receive something so often that to get nothing means something."""
        self._truncated: dict[int, int] = {}
        self._absences: dict[int, list[Fault]] = defaultdict(list)
        self._find_absences()
        self._cuts: list[Fault] = []

    def _kind(self, kind: str) -> pd.DataFrame:
        return self._of.get(kind, pd.DataFrame(columns=_COLUMNS))

    def _columns(self, kind: str) -> Iterator[tuple[Any, int, int, int]]:
        of_kind = self._kind(kind)
        yield from zip(*(of_kind[name].tolist() for name in ("message", "a", "b", "first")),
                       strict=True)  # fmt: skip

    def _firsts(self, kind: str) -> Mapping[tuple[Any, int], dict[int, int]]:
        """By message and receiver: when each sender sent it first, had written it to its stream,
        had no room for it in its queue, or was asked for it."""
        found: dict[tuple[Any, int], dict[int, int]] = defaultdict(dict)
        for message, sender, receiver, time in self._columns(kind):
            senders = found[message, receiver]
            senders[sender] = min(time, senders.get(sender, time))
        return found

    # Peers that weren't there.

    def _find_absences(self) -> None:
        for _, peer, _, time in self._columns("start"):
            self._find_restart(peer, time)
        for peer, pulses in self._pulses.items():
            within = np.zeros(int(pulses[:, 2].sum()) - len(pulses))
            silences = np.append(within, pulses[1:, 0] - pulses[:-1, 1])
            usual = np.quantile(silences, 0.9) if len(silences) else 0
            heard = self._a == peer
            ends = pulses[:, 1].tolist()
            for begin, until in zip(ends, [*pulses[1:, 0].tolist(), _FOREVER], strict=True):
                if min(until, self._over) - begin <= self._deadline:
                    continue
                if self._absence(peer, begin, until) is not None:
                    continue
                # What was under way at its last moment may still arrive, at one that catches up
                # for some seconds.
                later = heard & (self._first < until)
                later &= (self._first > begin + SECOND) | (self._last > begin + self._deadline)
                if until < _FOREVER:
                    if until - begin > _UNUSUAL * usual and not later.any():
                        said = "it traced and answered nothing"
                        self._absent("stopped", peer, begin, until, said)
                elif later.any():
                    self._truncated[peer] = begin
                else:
                    said = "its trace ends, and nobody heard of it later"
                    self._absent("down", peer, begin, until, said)

    def _find_restart(self, peer: int, time: int) -> None:
        """The time without a process before the one that began at `time`, if there was another."""
        pulses = self._pulses.get(peer, np.empty((0, 3)))
        earlier = pulses[pulses[:, 0] < time]
        if len(earlier):
            received = self._first[(self._b == peer) & (self._last >= time)]
            back = max(int(received.min()), time) if len(received) else time
            said = "its process ended, and a new one began"
            self._absent("down", peer, min(int(earlier[-1, 1]), time), back, said)

    def _absent(self, cause: str, peer: int, begin: int, end: int, detail: str) -> None:
        others = frozenset(self._pulses) - {peer}
        self._absences[peer].append(Fault(cause, begin, end, frozenset({peer}), others, detail))

    # Peers that were apart.

    def _reached(self, source: int, begin: int, end: int) -> Any:
        """Which peers a chain of receipts from `begin` to `end` leads to."""
        reached = np.zeros(len(self._names) + 1, dtype=bool)
        reached[source] = True
        near = (self._first <= end) & (self._last >= begin)
        a, b, first, last = (of[near] for of in (self._a, self._b, self._first, self._last))
        for at in range(begin, end, SECOND):
            now = (first < at + SECOND) & (last >= at)
            senders, receivers = a[now], b[now]
            while True:
                new = receivers[reached[senders]]
                if reached[new].all():
                    break
                reached[new] = True
        return reached[:-1]

    def _find_cuts(self) -> None:
        for (time, source), pairs in self._troubles.groupby(["first", "a"]):
            time, source = int(time), int(source)
            end = time + self._deadline
            # What the run didn't wait for may have been under way.
            if source < 0 or end > self._over:
                continue
            lacking = [p for p in pairs["b"].tolist() if self._absence(p, time, end) is None]
            if not lacking:
                continue
            reached = self._reached(source, time, end)
            if reached[lacking].all():
                continue
            alive = self._alive(time, end)
            inside = frozenset(np.flatnonzero(reached & alive).tolist())
            outside = frozenset(np.flatnonzero(~reached & alive).tolist()) & self._talkative
            if outside:
                self._apart(inside | {source}, outside, time, end)
        for peer, absences in self._absences.items():
            self._absences[peer] = [f for f in absences if not self._is_of_a_cut(f)]

    def _alive(self, begin: int, end: int) -> Any:
        alive = np.zeros(len(self._names), dtype=bool)
        for peer, pulses in self._pulses.items():
            there = (pulses[:, 1] >= begin - self._margin) & (pulses[:, 0] <= end + self._margin)
            absent = self._absence(peer, begin, end) is not None or self._ends(peer) < end
            alive[peer] = there.any() and not absent
        return alive

    def _ends(self, peer: int) -> int:
        """When the trace of a peer ends that was there later."""
        return self._truncated.get(peer, _FOREVER)

    def _apart(self, inside: frozenset[int], outside: frozenset[int], begin: int, end: int) -> None:
        over = np.isin(self._a, list(inside)) & np.isin(self._b, list(outside))
        before = self._last[over & (self._first < begin)]
        after = self._first[over & (self._last > end)]
        other, side = sorted((inside, outside), key=lambda peers: (-len(peers), min(peers)))
        since = min(int(before.max()), begin) if len(before) else begin
        until = max(int(after.min()), end) if len(after) else _FOREVER
        met = [cut for cut in self._cuts if cut.overlaps(since, until)]
        cut = next((cut for cut in met if cut.is_mostly(side)), None)
        if cut is not None:
            # Of both directions, the link that carried something first ended it.
            cut.begin, cut.end = max(cut.begin, since), min(cut.end, until)
            cut.peers |= side
            cut.others = (cut.others | other) - cut.peers
        elif not any(side <= cut.peers for cut in met):  # reached last when that cut had ended
            self._cuts.append(Fault("cut", since, until, side, other))

    def _is_of_a_cut(self, absence: Fault) -> bool:
        """Whether a peer was silent since it was cut off: with few others it traces little."""
        return absence.cause == "stopped" and any(
            cut.begin < absence.begin < cut.end and absence.end <= cut.end + self._deadline
            for cut in self._cuts
            if absence.peers <= cut.peers
        )

    # Causes.

    def _absence(self, peer: int, begin: int, end: int) -> Fault | None:
        return next((f for f in self._absences[peer] if f.overlaps(begin, end)), None)

    def _between(self, source: int, peer: int, begin: int, end: int) -> Fault | None:
        """The fault that kept the two apart, of several the one that did so for longest. A cut goes
        before: one that is alone may have nothing to trace."""
        parting = (cut for cut in self._cuts if cut.parts(source, peer))
        met = [f for f in (*parting, *self._absences[peer]) if f.overlaps(begin, end)]
        return max(met, key=lambda f: min(f.end, end) - max(f.begin, begin), default=None)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows of `JUDGED`."""
        self._find_cuts()
        judged = [(pair, *self._cause(pair)) for pair in self._troubles.itertuples(index=False)]
        for pair, _, fault, *_ in judged:
            if fault is not None:
                fault.pairs.append(pair.last == NEVER)
        absent = [fault for faults in self._absences.values() for fault in faults]
        faults = sorted(
            (f for f in (*absent, *self._cuts) if f.pairs),
            key=lambda f: (f.begin, f.cause, min(f.peers)),
        )
        number = {id(fault): place for place, fault in enumerate(faults)}
        for pair, cause, fault, sender, receiver, detail in judged:
            latency = None if pair.last == NEVER else int(pair.last) - int(pair.first)
            yield (
                self._run, pair.topic, pair.message, self._names[pair.b], int(pair.first), latency,
                cause, None if fault is None else number[id(fault)],
                self._name(sender), self._name(receiver), detail, *[None] * 8,
            )  # fmt: skip
        for place, fault in enumerate(faults):
            names = sorted(self._names[peer] for peer in fault.peers)
            lost = sum(fault.pairs)
            yield (
                self._run, *[None] * 5, fault.cause, place, None, None, fault.detail or None,
                fault.begin, None if fault.end >= _FOREVER else fault.end,
                self._calm(fault, faults, judged), names[:SHOWN], len(names),
                len(fault.others), len(fault.pairs) - lost, lost,
            )  # fmt: skip

    def _calm(self, fault: Fault, faults: Sequence[Fault], judged: Sequence[Any]) -> int | None:
        """The last message after `fault` that was late or lost for it, or for no fault to or from
        one of its peers, if no time of `patience` is between that and it. What is late over a link
        that was slow before the fault isn't for it."""
        if fault.end >= _FOREVER:
            return None
        at = fault.end
        following = min((f.begin for f in faults if f.begin > fault.end), default=_FOREVER)
        slow = {
            tuple(link) for pair, cause, _, *link, _ in judged
            if cause == "slow" and pair.first < fault.begin
        }  # fmt: skip
        for pair, _, explained, *link, _ in judged:
            if pair.first > at + self._margin or pair.first >= following:
                break
            its = explained is None and not fault.peers.isdisjoint((pair.a, pair.b, *link))
            if explained is fault or (its and tuple(link) not in slow):
                at = max(at, int(pair.first))
        return at

    def _name(self, peer: int | None) -> str | None:
        return None if peer is None or peer < 0 else str(self._names[peer])

    def _cause(self, pair: Any) -> Found:
        source, peer, begin = int(pair.a), int(pair.b), int(pair.first)
        end = begin + self._deadline
        if self._ends(peer) < end:
            return "unknown", None, None, None, "its trace ends although others heard of it later"
        fault = self._between(source, peer, begin, end)
        if fault is None and source >= 0:
            gone = self._absence(source, begin, end)
            others = [
                t for p, (_, t) in self._deliveries[pair.message].items() if p not in (source, peer)
            ]
            if gone and not any(time < gone.begin + SECOND // 10 for time in others):
                fault = gone
        if fault is not None:
            return fault.cause, fault, None, None, fault.detail or None
        if pair.since == NEVER or pair.since > begin:
            return "joining", None, None, None, "it had no link yet"
        if pair.last != NEVER:
            return self._late(pair.message, source, peer, begin)
        return self._lost(pair.message, peer)

    def _late(self, message: Any, source: int, peer: int, published: int) -> Found:
        """Why the message was late over the link on which it became so."""
        way = self._deliveries[message]
        at, seen = peer, set()
        while at in way and at not in seen:
            seen.add(at)
            parent, got = way[at]
            if parent < 0:
                return "unknown", None, None, at, "no trace says from which peer it came"
            had = published if parent == source else way.get(parent, (0, None))[1]
            if had is None:
                return "unknown", None, parent, at, "the sender has no trace of it"
            if had - published <= self._deadline:
                break
            at = parent
        else:
            return "unknown", None, None, None, "no trace has its way"
        fault = self._absence(parent, had, got) or self._between(parent, at, had, got)
        if fault is not None:
            return fault.cause, fault, parent, at, fault.detail or None
        sends = self._sends.get((message, at), {})
        sent, asked = sends.get(parent), self._asks.get((message, at), {}).get(parent)
        if sent is None:
            return "unknown", None, parent, at, "no trace has its sending"
        first, sender = min((time, peer) for peer, time in sends.items())
        if sender != parent and got - first > first - published:
            said = f"after {(got - first) / SECOND:.2f} s another copy came first"
            return "slow", None, sender, at, said
        if got - sent >= sent - had:
            said = f"{(got - sent) / SECOND:.2f} s under way"
            written = self._written.get((message, at), {}).get(parent)
            if written is not None:
                said += f", {(written - sent) / SECOND:.2f} s of it until its sender had written it"
        elif asked is None:
            said = f"{(sent - had) / SECOND:.2f} s in the sender's queue"
        elif got - asked >= asked - had:
            said = f"{(got - asked) / SECOND:.2f} s after it was asked for"
        elif meanwhile := [end - begin for begin, end in self._slow[at]
                           if begin < asked and had < end]:  # fmt: skip
            took = f"{meanwhile[0] / SECOND:.2f} s"
            said = f"asked for late, while another one was {took} under way"
        elif parent in self._drops.get((message, at), ()):
            said = _FULL
        else:
            after = f"{(asked - had) / SECOND:.2f} s after the sender had it"
            return "overlay", None, parent, at, f"no push; it was asked for {after}"
        return "slow", None, parent, at, said

    def _lost(self, message: Any, peer: int) -> Found:
        if peer not in self._pulses:
            return "unknown", None, None, None, "it has no trace of its own"
        if peer in set(self._kind("dropped")["a"]):
            return "unknown", None, None, None, "its tracer dropped events"
        sends = self._sends.get((message, peer))
        if sends:
            return "overlay", None, min(sends), peer, "it was sent, and didn't come in"
        if drops := self._drops.get((message, peer)):
            return "slow", None, min(drops), peer, _FULL
        if "sends" not in self._of:
            return "unknown", None, None, None, "no sending is traced"
        return "overlay", None, None, None, "no peer sent it"


def judged(troubles: DataFrame, evidence: DataFrame, params: AnswerParams) -> DataFrame:
    """`JUDGED` from `facts.evidence`; of those of `troubles` that it has nothing of, the cause
    isn't known."""
    others = troubles.where("NOT judged").selectExpr(
        "run", "topic", "message", "peer", "published",
        f"CASE WHEN delivered != {NEVER} THEN delivered - published END AS latency",
        "'unknown' AS cause", "'one of too many to judge them all' AS detail",
    )  # fmt: skip
    known = grouped(evidence, ["run"], lambda rows: judge(rows, params), JUDGED)
    return known.unionByName(others, allowMissingColumns=True)


def causes(judged: DataFrame) -> DataFrame:
    """The table `causes`: one row for each pair that was late or lost."""
    return judged.where("message IS NOT NULL").select(
        "run", "topic", "message", "peer", "published", "latency", "cause", "fault", "sender",
        "receiver", "detail",
    )  # fmt: skip


def faults(judged: DataFrame) -> DataFrame:
    """The table `faults`: times at which peers weren't there, or were apart from the others, and
    what was late or lost for that reason."""
    return judged.where("message IS NULL").select(
        "run", "fault", "cause", "begin", "end", "calm", "peers", "count", "others", "late", "lost",
        "detail",
    )  # fmt: skip


def rest(
    arrivals: DataFrame, faults: DataFrame, causes: DataFrame, params: AnswerParams
) -> DataFrame:
    """The table `rest`: of each topic, the messages that were published in calm: at no fault and
    while no peer was slow, nor so shortly before that they met it, nor before all came in time
    again and `patience` later: as long the network is given to mend. A peer was slow if it was at
    an end of slow links for longer than `deadline`; what stalls for a moment counts, as a p99
    without the slowest would be too low."""
    deadline, patience = int(params.deadline * SECOND), int(params.patience * SECOND)
    ends = causes.where("cause = 'slow'").selectExpr(
        "run", "published", "latency", "explode(array(sender, receiver)) AS at"
    )
    of_end = Window.partitionBy("run", "at").orderBy("published")
    since = F.col("published") - F.lag("published").over(of_end)
    ends = ends.withColumn("is_new", F.coalesce(since > patience, F.lit(False)).cast("long"))
    times = grouped_by(
        ends.withColumn("time", F.sum("is_new").over(of_end)), ["run", "at", "time"],
        begin="min(published)", last="max(published)", calm="max(published + latency)",
    )  # fmt: skip
    slow = times.where(f"at IS NOT NULL AND last - begin > {deadline}")
    spans = slow.select("run", "begin", "calm").unionByName(faults.select("run", "begin", "calm"))
    spans = spans.selectExpr(
        "run AS of", f"begin - {deadline} AS begin",
        f"coalesce(calm + {patience}, {_FOREVER}) AS calm",
    )  # fmt: skip
    meets = F.expr("of = run AND published BETWEEN begin AND calm")
    left = arrivals.where("NOT origin").join(F.broadcast(spans), meets, "left_anti")
    left = left.withColumn("known", F.expr("CASE WHEN delivered THEN latency END"))
    key = ["run", "topic"]
    return grouped_by(
        ranked(left, key, "known"), key, messages="count(DISTINCT message)", live="count_if(live)",
        delivered="count_if(live AND delivered)", late=f"count_if(known > {deadline})",
        latency_p50=at_rank("known", 0.5), latency_p99=at_rank("known", 0.99),
    )  # fmt: skip
