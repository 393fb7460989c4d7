"""From the tables of a lake to a report: a few small queries for all runs together."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.lake import GOLD, SILVER, Lake, LakeError
from episub_router.pipeline.params import SECOND
from episub_router.pipeline.report.drawing import draw
from episub_router.pipeline.report.model import Drawing, Report, Row, Run, TopicReport
from episub_router.pipeline.report.notes import notes
from episub_router.pipeline.report.params import ReportParams
from episub_router.pipeline.report.queries import (
    ABOUT,
    MESSAGE,
    abouts,
    averaged,
    first,
    largest,
    looks,
    mended,
    most_frequent,
    on_time,
    ranked,
    thinned,
)

_OVERLAYS = ("active", "eager", "stream")
"""Kinds of links that an overlay can be made of, the best known first."""

_NO_TOPIC = "(no topic)"


def gather(
    lake: Lake, runs: Sequence[str], baselines: Sequence[str], params: ReportParams
) -> Report:
    """The report on `runs`, against `baselines`, which are one side of runs that differ by their
    seed; so are simulated ones among `runs` whose names differ by the seed at the end alone. Raises
    LakeError where a run has no answers."""
    wanted = list(dict.fromkeys((*runs, *baselines)))
    tables = _Tables(lake, wanted, baselines, params)
    made = {name: tables.run(name) for name in wanted}
    alone = all(len(run.topics) == 1 for run in made.values())
    sides = _sides([made[name] for name in dict.fromkeys(runs) if name not in baselines])
    if baselines:
        sides.append([made[name] for name in dict.fromkeys(baselines)])
    shown = [_side(side, alone) for side in sides]
    against = shown.pop() if baselines else None
    report = Report(shown, against, params.deadline)
    return replace(report, notes=notes(report.all_runs))


def _sides(runs: Sequence[Run]) -> list[list[Run]]:
    """`runs` by what they are but for their seed; what says no seed is by itself."""
    sides: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        about = [str(run.about.get(name)) for name in ("router", "scenario")]
        key = (_stem(run.name), *about) if run.about.get("seed") else (run.name,)
        sides.setdefault(key, []).append(run)
    return list(sides.values())


def _stem(run: str) -> str:
    return re.sub(r"-\d+$", "", run)


def _side(runs: Sequence[Run], alone: bool) -> Run:
    """The first of `runs`, with the figures of all."""
    (chosen, *others) = runs
    name = f"{_stem(chosen.name)} ({len(runs)} runs)" if others else chosen.name
    topics = []
    for topic in chosen.topics:
        same = [other for run in runs for other in run.topics if other.topic == topic.topic]
        label = name if alone else f"{name} · {topic.topic}"
        topics.append(replace(topic, label=label, of_runs=[other.figures for other in same]))
    return replace(chosen, topics=topics, replicas=[run.name for run in others])


class _Tables:
    """Rows of all tables, by run."""

    def __init__(
        self, lake: Lake, runs: Sequence[str], baselines: Sequence[str], params: ReportParams
    ) -> None:
        self._lake, self._runs, self._params = lake, runs, params
        self._rows: dict[str, dict[str, list[Row]]] = {}
        self._keep("spread", self._gold("spread").where("window IS NULL"))
        missing = [run for run in runs if run not in self._rows["spread"]]
        if missing:
            raise LakeError(
                f"no answers for run {', '.join(missing)}: `episub pipeline answers` makes them, "
                "if the run has any messages"
            )
        self._chosen = self._choose(baselines)
        for name in ("quality", "balance", "sds_channels", "cuts", "rest"):
            self._keep(name, self._gold(name))
        faults = self._of_topics("recovery")
        self._keep("recovery", largest(faults, params.points))
        self._keep("mended", mended(faults))
        self._keep("overlay", looks(self._of_topics("overlay", or_none=True), params.points))
        for name in ("missing", "duplicate_causes"):
            self._keep(name, self._of_topics(name).where("window IS NULL"))
        self._keep("control_traffic", self._gold("control_traffic").where("window IS NULL"))
        self._keep("losses", most_frequent(self._gold("loss_reasons"), params.reasons))
        self._keep("latency_cdf", thinned(self._of_topics("latency_cdf"), params.points))
        self._keep("on_time", on_time(self._of_topics("latency_cdf"), params.deadline))
        self._keep("messages", averaged(self._of_topics("messages"), params.points))
        self._keep("load", ranked(self._gold("load"), params.points))
        clocks = lake.read(SILVER, "clocks", runs).where("offset IS NOT NULL")
        self._keep("clocks", first(clocks, [F.abs("offset").desc(), F.col("peer")], 5))
        headers = lake.records(runs).where("event = 'header' AND detail IS NOT NULL")
        self._keep("headers", abouts(headers, params.reasons))
        best = first(
            self._of_topics("messages"),
            [F.struct("reliability", "published", "message").desc()],
            1,
            "topic",
        )
        self._keep("last", best.select("run", "topic", "message", "source", "receivers"))
        self._keep("tree", self._tree(best))
        self._keep("links", self._links(best))

    def _gold(self, name: str) -> DataFrame:
        return self._lake.read(GOLD, name, self._runs)

    def _choose(self, baselines: Sequence[str]) -> dict[str, list[str | None]]:
        """The topics of each run that are shown: those with the most messages, and of the baseline
        those that others are held against."""
        chosen = {
            run: [row["topic"] for row in self._spreads(run)[: self._params.topics]]
            for run in self._runs
        }
        for run in self._runs:
            # Also what others are held against, and what is the same in other seeds.
            there = {row["topic"] for row in self._spreads(run)}
            of_all = (topic for other in self._runs for topic in chosen[other] if topic in there)
            if run in baselines or len(self._runs) > 1 + len(baselines):
                chosen[run] = list(dict.fromkeys((*chosen[run], *of_all)))
        return chosen

    def _spreads(self, run: str) -> list[Row]:
        return sorted(
            self.rows("spread", run), key=lambda row: (-row["messages"], row["topic"] or "")
        )

    def _of_topics(self, name: str, or_none: bool = False) -> DataFrame:
        """The rows of the answers `name` about the topics that are shown, or about none."""
        table = self._gold(name)
        pairs = [(run, topic) for run, topics in self._chosen.items() for topic in topics]
        shown = table.sparkSession.createDataFrame(pairs, "of_run string, of_topic string")
        same = F.col("topic").eqNullSafe(F.col("of_topic"))
        if or_none:
            same |= F.col("topic").isNull()
        return table.join(F.broadcast(shown), (F.col("run") == F.col("of_run")) & same, "left_semi")

    def _keep(self, name: str, table: DataFrame) -> None:
        self._rows[name] = defaultdict(list)
        for row in table.collect():
            values = row.asDict(recursive=True)
            self._rows[name][values.pop("run")].append(values)

    def _tree(self, best: DataFrame) -> DataFrame:
        chosen = F.broadcast(best.select("run", "message"))
        got = self._lake.read(SILVER, "deliveries", self._runs).join(chosen, ["run", "message"])
        nearest = [F.col("hops").asc_nulls_last(), F.col("peer")]
        near = first(got, nearest, 10 * self._params.drawn, "topic")
        return near.select("run", "topic", "peer", "parent")

    def _links(self, best: DataFrame) -> DataFrame:
        """The overlay when the message of the drawing was published."""
        chosen = F.broadcast(best.select("run", F.col("topic").alias("of"), "published"))
        links = self._lake.read(SILVER, "links", self._runs).where(F.col("kind").isin(*_OVERLAYS))
        there = links.join(chosen, "run").where(
            F.col("topic").isNull() | (F.col("topic") == F.col("of"))
        )
        there = there.where(
            (F.col("since") <= F.col("published"))
            & (F.col("until").isNull() | (F.col("until") > F.col("published")))
        )
        pairs = there.select(
            "run", "of", "kind",
            F.least("peer", "remote").alias("a"), F.greatest("peer", "remote").alias("b"),
        )  # fmt: skip
        in_order = [F.col("a"), F.col("b")]
        drawn = first(pairs.distinct(), in_order, 100 * self._params.drawn, "of", "kind")
        return drawn.select("run", F.col("of").alias("topic"), "kind", "a", "b")

    def rows(self, name: str, run: str, **wanted: Any) -> list[Row]:
        return [
            row
            for row in self._rows[name].get(run, ())
            if all(row[key] == value for key, value in wanted.items())
        ]

    def run(self, name: str) -> Run:
        (quality,) = self.rows("quality", name)
        spreads = self._spreads(name)
        chosen = [row for row in spreads if row["topic"] in self._chosen[name]]
        return Run(
            name=name,
            about=_about(self.rows("headers", name)),
            quality=quality,
            control=_sorted(self.rows("control_traffic", name), "kind"),
            losses=sorted(
                self.rows("losses", name),
                key=lambda row: (-row["count"], row["kind"], row["reason"]),
            ),
            load=[
                (row["share"], row["sent_messages"], row["sent_bytes"])
                for row in _sorted(self.rows("load", name), "share")
            ],
            balance={row["figure"]: row for row in self.rows("balance", name)},
            clocks=_sorted(self.rows("clocks", name), "peer"),
            channels=_sorted(self.rows("sds_channels", name), "channel"),
            topics=[self._topic(name, row, quality) for row in chosen],
            topics_left_out=len(spreads) - len(chosen),
            cuts=[
                {
                    **cut,
                    "after": (cut["begin"] - quality["begin"]) / SECOND,
                    "until": (cut["end"] - quality["begin"]) / SECOND,
                }
                for cut in _sorted(self.rows("cuts", name), "begin", "peers")
            ],
        )

    def _topic(self, run: str, spread: Row, quality: Row) -> TopicReport:
        topic = spread["topic"]
        begin = quality["begin"]
        seen = [
            {**look, "after": (look["time"] - begin) / SECOND}
            for look in _sorted(self.rows("overlay", run), "kind", "time")
            if look["topic"] in (topic, None)
        ]
        faults = _sorted(self.rows("recovery", run, topic=topic), "time")
        shown = _NO_TOPIC if topic is None else topic
        return TopicReport(
            label=f"{run} · {shown}",
            run=run,
            topic=shown,
            figures=self._figures(run, spread, seen),
            latencies=[
                (row["millisecond"] + 1, row["share"])
                for row in _sorted(self.rows("latency_cdf", run, topic=topic), "millisecond")
            ],
            messages=[
                {
                    "index": row["index"],
                    "after": (row["published"] - begin) / SECOND,
                    **{name: row[name] for name in MESSAGE[2:]},
                }
                for row in _sorted(self.rows("messages", run, topic=topic), "index")
            ],
            degrees={look["kind"]: look["degrees"] for look in seen},
            overlay=[
                {name: look[name] for name in ("kind", "after", "proximity_ratio", "degree_mean",
                                               "components", "symmetry")}
                for look in seen
            ],
            faults=[{**fault, "after": (fault["time"] - begin) / SECOND} for fault in faults],
            rest=next(iter(self.rows("rest", run, topic=topic)), {}),
            missing={r["reason"]: r["count"] for r in self.rows("missing", run, topic=topic)},
            duplicates={
                r["cause"]: r["count"] for r in self.rows("duplicate_causes", run, topic=topic)
            },
            drawing=self._drawing(run, topic),
        )  # fmt: skip

    def _figures(self, run: str, spread: Row, looks: Sequence[Row]) -> dict[str, float | None]:
        figures = {
            name: spread[name]
            for name in (
                "messages", "deliveries", "reliability", "worst_reliability", "atomicity",
                "latency_p50", "latency_p99", "latency_max", "t99", "rmr", "rmr_last",
                "duplicates_per_delivery",
                "ldh", "mean_hops", "fan_out_max", "stability",
            )
        }  # fmt: skip
        topic = spread["topic"]
        figures["missing"] = spread["live"] - spread["delivered"]
        expected = spread["live"] - (spread["delivered"] - spread["deliveries"])
        # Whether those came in time that have no latency, nobody knows.
        expected -= spread["unknown_latencies"]
        in_time = sum(row["deliveries"] for row in self.rows("on_time", run, topic=topic))
        figures["on_time"] = in_time / expected if expected else None
        figures["late"] = expected - in_time
        figures["bytes_per_delivery"] = self._bytes_per_delivery(run)
        control = self.rows("control_traffic", run)
        for name in ("sends", "ids", "bytes"):
            shares = [row[f"{name}_per_delivery"] for row in control]
            known = [value for value in shares if value is not None]
            figures[f"control_{name}"] = math.fsum(known) if known else None
        sent = [row for row in self.rows("balance", run) if row["figure"] == "sent_messages"]
        figures["load_gini"] = sent[0]["gini"] if sent and sent[0]["mean"] else None
        last = _last_look(looks)
        for name in ("degree_mean", "proximity_ratio", "components"):
            figures[name] = last[name] if last else None
        mended = next(iter(self.rows("mended", run, topic=topic)), {})
        for name in ("repaired_after", "unrepaired"):
            figures[name] = mended.get(name)
        channels = self.rows("sds_channels", run)
        figures["causal_violations"] = (
            sum(row["violations"] for row in channels) if channels else None
        )
        return figures

    def _bytes_per_delivery(self, run: str) -> float | None:
        """All bytes sent in the run for each of its deliveries; None where a trace lacks sizes."""
        (quality,) = self.rows("quality", run)
        figures = {row["figure"]: row for row in self.rows("balance", run)}
        sent, sized = figures.get("sent_rpcs"), figures.get("sent_bytes")
        if not (sent and sized and quality["served"]) or sized["peers"] != sent["peers"]:
            return None
        return float(sized["mean"] * sized["peers"] / quality["served"])

    def _drawing(self, run: str, topic: str | None) -> Drawing | None:
        tree = self.rows("tree", run, topic=topic)
        last = self.rows("last", run, topic=topic)
        if not tree or not last:
            return None
        links = self.rows("links", run, topic=topic)
        kinds = [kind for kind in _OVERLAYS if any(link["kind"] == kind for link in links)]
        kind = kinds[0] if kinds else None
        return draw(
            last[0]["message"],
            last[0]["source"],
            {row["peer"]: row["parent"] for row in tree},
            [(link["a"], link["b"]) for link in links if link["kind"] == kind],
            kind,
            self._params.drawn,
            last[0]["receivers"],
        )


def _about(headers: Sequence[Row]) -> Row:
    """What headers say, in one: where they differ, everything."""
    if not headers:
        return {}
    described = {
        name: ", ".join(sorted({row[name] for row in headers if row[name] is not None}))
        for name in ABOUT
    }
    simulated = any(row["simulated"] for row in headers)
    return {name: value for name, value in described.items() if value} | {"simulated": simulated}


def _last_look(looks: Sequence[Row]) -> Row | None:
    for kind in _OVERLAYS:
        of_kind = [look for look in looks if look["kind"] == kind]
        if of_kind:
            return of_kind[-1]
    return None


def _sorted(rows: Sequence[Row], *keys: str) -> list[Row]:
    def order(row: Row) -> list[tuple[bool, Any]]:
        return [(row[key] is None, row[key]) for key in keys]

    return sorted(rows, key=order)
