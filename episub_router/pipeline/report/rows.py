"""From a run's answers in a lake to what a report says of it."""

import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from episub_router.pipeline.lake import GOLD, SILVER, Lake
from episub_router.pipeline.params import SECOND
from episub_router.pipeline.report import queries
from episub_router.pipeline.report.comparison import mean_of
from episub_router.pipeline.report.drawing import draw
from episub_router.pipeline.report.model import Drawing, Row, Run, TopicReport
from episub_router.pipeline.report.params import ReportParams
from episub_router.pipeline.stream import live

OVERLAYS = ("active", "eager", "stream")
"""Kinds of links that an overlay can be made of, the best known first."""

_NO_TOPIC = "(no topic)"

_DEEP = 1.25
_SLOW = 1.5
"""Times the mean over a run's peers, from which on a depth or a latency says something. Chosen."""

_SPREAD = (
    "messages", "deliveries", "reliability", "worst_reliability", "atomicity", "latency_p50",
    "latency_p99", "latency_max", "t99", "rmr", "rmr_last", "duplicates_per_delivery", "ldh",
    "mean_hops", "fan_out_max", "stability",
)  # fmt: skip
_MESSAGE = ("index", "reliability", "rmr", "ldh", "duplicates", "latency_p99")
_LOOK = ("kind", "proximity_ratio", "degree_mean", "components", "symmetry")
"""Columns of the tables `spread`, `messages` and `overlay` that are in a report."""


def spreads(lake: Lake, run: str) -> list[Row]:
    """The table `spread` of a whole run: its topics, those with the most messages first. Of one
    that only a stream has answered, what follows from that."""
    made = "spread" in lake.tables(GOLD)
    rows = _of_all(lake.look(GOLD, "spread", [run]).to_table().to_pylist()) if made else []
    rows = rows or queries.summed(live(lake, "messages", [run]))
    return sorted(rows, key=lambda row: (-row["messages"], row["topic"] or ""))


class RunRows:
    """The rows of a run in the tables of a lake, and what a report says of them."""

    def __init__(self, lake: Lake, run: str, params: ReportParams) -> None:
        self._lake, self._name, self._params = lake, run, params
        self._tables = {layer: lake.tables(layer) for layer in (GOLD, SILVER)}
        quality = self._rows("quality")
        self._streamed = [] if quality else live(lake, "messages", [run])
        """What a stream has answered, where nothing else has."""
        (self._quality,) = quality or [queries.of_stream(self._streamed)]
        self._balance = {row["figure"]: row for row in self._rows("balance")}
        self._control = queries.ordered(_of_all(self._rows("control_traffic")), "kind")
        self._channels = queries.ordered(self._rows("sds_channels"), "channel")

    def _rows(self, name: str, where: Any = None, layer: str = GOLD) -> list[Row]:
        if name not in self._tables[layer]:
            return []
        table = self._lake.look(layer, name, [self._name]).to_table(filter=where)
        rows: list[Row] = table.drop(["run"]).to_pylist()
        return rows

    def run(self, topics: Sequence[Row], left_out: int) -> Run:
        """What is said of the run, and of `topics`, rows of `spreads`."""
        rows, params = self._rows, self._params
        headers = self._lake.traced(self._name, "header").to_table(["detail"])["detail"]
        clocks = [row for row in rows("clocks", layer=SILVER) if row["offset"] is not None]
        clocks.sort(key=lambda row: (-abs(row["offset"]), row["peer"]))
        times = {"after": "begin", "until": "end", "calm_after": "calm"}
        return Run(
            name=self._name,
            about=queries.about(headers.drop_null().to_pylist(), params.reasons),
            quality=self._quality,
            control=self._control,
            losses=queries.most_frequent(_of_all(rows("loss_reasons")), params.reasons),
            load=queries.ranked(rows("load"), params.points),
            balance=self._balance,
            clocks=queries.ordered(clocks[:5], "peer"),
            channels=self._channels,
            topics=[self._topic(row) for row in topics],
            topics_left_out=left_out,
            faults=[fault | {at: self._since(fault[of]) for at, of in times.items()}
                    | {"run": self._name}
                    for fault in queries.largest(rows("faults"), params.points, *queries.COST)],
            groups=queries.of_traits(rows("groups"), params.reasons),
            worst=_worst(rows("peers"), params),
        )  # fmt: skip

    def _topic(self, spread: Row) -> TopicReport:
        topic, params = spread["topic"], self._params
        its = _is("topic", topic)

        def timed(row: Row, time: str, *names: str) -> Row:
            return {name: row[name] for name in names} | {"after": self._since(row[time])}

        either = its | ds.field("topic").is_null()
        seen = queries.looks(self._rows("overlay", either), params.points)
        messages = self._rows("messages", its)
        messages += [row for row in self._streamed if row["topic"] == topic]
        faults = self._rows("recovery", its)
        causes = {} if self._streamed else queries.caused(
            self._lake.look(GOLD, "causes", [self._name]).to_table(["cause", "latency"], filter=its)
        )  # fmt: skip
        late = None if self._streamed else sum(map(sum, causes.values()))
        shown = _NO_TOPIC if topic is None else topic
        return TopicReport(
            label=f"{self._name} · {shown}",
            run=self._name,
            topic=shown,
            figures=self._figures(spread, seen, faults, late),
            latencies=[(row["millisecond"] + 1, row["share"])
                       for row in queries.thinned(self._rows("latency_cdf", its), params.points)],
            drawing=self._drawing(topic, messages),
            messages=[timed(row, "published", *_MESSAGE)
                      for row in queries.averaged(messages, params.points)],
            degrees={look["kind"]: look["degrees"] for look in seen},
            overlay=[timed(look, "time", *_LOOK) for look in seen],
            faults=[timed(fault, "time", *fault)
                    for fault in queries.largest(faults, params.points)],
            rest=next(iter(self._rows("rest", its)), {}),
            causes=causes,
            missing={r["reason"]: r["count"] for r in _of_all(self._rows("missing", its))},
            duplicates={r["cause"]: r["count"]
                        for r in _of_all(self._rows("duplicate_causes", its))},
        )  # fmt: skip

    def _figures(
        self, spread: Row, looks: Sequence[Row], faults: Sequence[Row], late: int | None
    ) -> dict[str, float | None]:
        figures = {name: spread[name] for name in _SPREAD}
        figures["missing"] = spread["live"] - spread["delivered"]
        expected = spread["live"] - (spread["delivered"] - spread["deliveries"])
        # Whether those came in time that have no latency, nobody knows.
        expected -= spread["unknown_latencies"]
        figures["late"] = late
        figures["on_time"] = 1 - late / expected if expected and late is not None else None
        figures["bytes_per_delivery"] = self._bytes_per_delivery()
        for name in ("sends", "ids", "bytes"):
            shares = [row[f"{name}_per_delivery"] for row in self._control]
            known = [value for value in shares if value is not None]
            figures[f"control_{name}"] = math.fsum(known) if known else None
        sent = self._balance.get("sent_messages")
        figures["load_gini"] = sent["gini"] if sent and sent["mean"] else None
        last = next((look for kind in OVERLAYS for look in reversed(looks)
                     if look["kind"] == kind), None)  # fmt: skip
        for name in ("degree_mean", "proximity_ratio", "components"):
            figures[name] = last[name] if last else None
        repaired = [row["repaired_after"] for row in faults if row["repaired_after"] is not None]
        figures["repaired_after"] = max(repaired, default=None)
        figures["unrepaired"] = len(faults) - len(repaired) if faults else None
        violations = [row["violations"] for row in self._channels]
        figures["causal_violations"] = sum(violations) if violations else None
        return figures

    def _bytes_per_delivery(self) -> float | None:
        """All bytes sent in the run for each of its deliveries; None where a trace lacks sizes."""
        sent, sized = self._balance.get("sent_rpcs"), self._balance.get("sent_bytes")
        served = self._quality["served"]
        if not (sent and sized and served) or sized["peers"] != sent["peers"]:
            return None
        return float(sized["mean"] * sized["peers"] / served)

    def _drawing(self, topic: str | None, messages: Sequence[Row]) -> Drawing | None:
        """The last of the messages that reached most, in the overlay when it was published."""
        if not messages:
            return None
        best = max(messages, key=itemgetter("reliability", "published", "message"))
        tree = self._rows("deliveries", _is("message", best["message"]), SILVER)
        if not tree:
            return None
        at, until = best["published"], ds.field("until")
        there = (
            ds.field("kind").isin(OVERLAYS) & (ds.field("since") <= at)
            & (until.is_null() | (until > at))
            & (ds.field("topic").is_null() | _is("topic", topic))
        )  # fmt: skip
        links = self._rows("links", there, SILVER)
        kind = next((k for k in OVERLAYS if any(link["kind"] == k for link in links)), None)
        most = self._params.drawn
        pairs = sorted({(link["peer"], link["remote"]) for link in links if link["kind"] == kind})
        nearest = queries.ordered(tree, "hops", "peer")[: 10 * most]
        parents = {row["peer"]: row["parent"] for row in nearest}
        return draw(best["message"], best["source"], parents, pairs, kind, most, best["receivers"])

    def _since(self, time: int | None) -> float | None:
        return None if time is None else (time - self._quality["begin"]) / SECOND


def _is(name: str, value: str | None) -> Any:
    column = ds.field(name)
    return column.is_null() if value is None else column == pa.scalar(value, pa.string())


def _of_all(rows: Iterable[Row]) -> list[Row]:
    """Those of the whole run."""
    return [row for row in rows if row["window"] is None]


def _worst(peers: Sequence[Row], params: ReportParams) -> list[Row]:
    """The peers that fared worst, of those that were to get enough, and why."""
    means = {f"usual_{name}": mean_of([p[name] for p in peers]) for name in ("latency", "hops")}
    known = [peer | means for peer in peers if peer["expected"] >= params.enough]
    known.sort(key=lambda p: (-p["missing"], -p["late"], -(p["latency"] or 0), p["peer"]))
    return [peer | {"why": reason(peer)} for peer in known[: params.worst]]


def reason(row: Row) -> str:
    """Why a peer, a row of the table `peers` with the means of all, fared as it did."""
    said = [row["causes"]] if row["causes"] else []
    if _is_beyond(row, "hops", _DEEP):
        said.append(f"deep in the trees, {row['hops']:.1f} hops where the mean is "
                    f"{row['usual_hops']:.1f}")  # fmt: skip
    elif not said and _is_beyond(row, "latency", _SLOW):
        said.append("no deeper than others: it or a link on the way to it is slow")
    return "; ".join(said) or "nothing lacks"


def _is_beyond(row: Row, name: str, times: float) -> bool:
    value, usual = row[name], row[f"usual_{name}"]
    return value is not None and usual is not None and value > times * max(usual, 0)
