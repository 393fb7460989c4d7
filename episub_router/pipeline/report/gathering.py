"""From the tables of a lake to a report: a few small queries for all runs together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episub_router.pipeline.lake import GOLD, SILVER, Lake, LakeError
from episub_router.pipeline.report.model import Report, Row, Run
from episub_router.pipeline.report.notes import notes
from episub_router.pipeline.report.params import ReportParams
from episub_router.pipeline.report.peers import by_trait, fared, worst
from episub_router.pipeline.report.queries import (
    abouts,
    averaged,
    caused,
    first,
    largest,
    looks,
    mended,
    most_frequent,
    ranked,
    thinned,
    together,
)
from episub_router.pipeline.report.rows import OVERLAYS, ReportRows, by_messages


def gather(
    lake: Lake, runs: Sequence[str], baselines: Sequence[str], params: ReportParams
) -> Report:
    """The report on `runs`, against `baselines`, which are one side of runs that differ by their
    seed; so are simulated ones among `runs` whose names differ by the seed at the end alone. Raises
    LakeError where a run has no answers."""
    wanted = list(dict.fromkeys((*runs, *baselines)))
    found = _Tables(lake, wanted, baselines, params)
    rows = ReportRows(found.rows, found.chosen, params)
    made = {name: rows.run(name) for name in wanted}
    alone = all(len(run.topics) == 1 for run in made.values())
    sides = _sides([made[name] for name in dict.fromkeys(runs) if name not in baselines])
    if baselines:
        sides.append([made[name] for name in dict.fromkeys(baselines)])
    shown = [_side(side, alone) for side in sides]
    against = shown.pop() if baselines else None
    (deadline, *others) = {run.quality["deadline"] for run in made.values()}
    if others:
        raise LakeError(
            "the runs were answered with different deadlines: `episub pipeline answers` makes "
            "their answers anew"
        )
    report = Report(shown, against, deadline)
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
        seeds = [str(run.about.get("seed", run.name)) for run in runs for other in run.topics
                 if other.topic == topic.topic]  # fmt: skip
        topics.append(
            replace(topic, label=label, of_runs=[other.figures for other in same], seeds=seeds)
        )
    return replace(chosen, topics=topics, replicas=[run.name for run in others])


class _Tables:
    """`rows` of all tables, by run, and the topics that were `chosen`."""

    def __init__(
        self, lake: Lake, runs: Sequence[str], baselines: Sequence[str], params: ReportParams
    ) -> None:
        self._lake, self._runs, self._params = lake, runs, params
        self.rows = self._asked({"spread": self._gold("spread").where("window IS NULL")})
        missing = [run for run in runs if run not in self.rows["spread"]]
        if missing:
            raise LakeError(
                f"no answers for run {', '.join(missing)}: `episub pipeline answers` makes them, "
                "if the run has any messages"
            )
        self.chosen = self._choose(baselines)
        points, reasons = params.points, params.reasons
        faults, causes, messages = map(self._of_topics, ("recovery", "causes", "messages"))
        of_peers = fared(self._silver("arrivals"), self._gold("causes"))
        clocks = self._silver("clocks").where("offset IS NOT NULL")
        headers = lake.records(runs).where("event = 'header' AND detail IS NOT NULL")
        falling = [F.col(name).desc() for name in ("reliability", "published", "message")]
        best = first(messages, falling, 1, "topic")
        self.rows |= self._asked({
            **{name: self._gold(name)
               for name in ("quality", "balance", "sds_channels", "faults", "rest")},
            **{name: self._of_topics(name).where("window IS NULL")
               for name in ("missing", "duplicate_causes")},
            "control_traffic": self._gold("control_traffic").where("window IS NULL"),
            "recovery": largest(faults, points),
            "mended": mended(faults),
            "overlay": looks(self._of_topics("overlay", or_none=True), points),
            "losses": most_frequent(self._gold("loss_reasons"), reasons),
            "latency_cdf": thinned(self._of_topics("latency_cdf"), points),
            "caused": caused(causes),
            "messages": averaged(messages, points),
            "load": ranked(self._gold("load"), points),
            "worst": worst(of_peers, self._gold("causes"), params.worst, params.enough),
            "clocks": first(clocks, [F.abs("offset").desc(), F.col("peer")], 5),
            "headers": abouts(headers, reasons),
            "groups": by_trait(of_peers, self._silver("traits"), self._gold("groups"), reasons),
            "last": best.select("run", "topic", "message", "source", "receivers"),
            "tree": self._tree(best),
            "links": self._links(best),
        })  # fmt: skip

    def _gold(self, name: str) -> DataFrame:
        return self._lake.read(GOLD, name, self._runs)

    def _silver(self, name: str) -> DataFrame:
        return self._lake.read(SILVER, name, self._runs)

    def _choose(self, baselines: Sequence[str]) -> dict[str, list[str | None]]:
        """The topics of each run that are shown: those with the most messages, and of the baseline
        those that others are held against."""
        there = {
            run: [row["topic"] for row in by_messages(self.rows["spread"][run])]
            for run in self._runs
        }
        chosen = {run: topics[: self._params.topics] for run, topics in there.items()}
        for run in self._runs:
            # Also what others are held against, and what is the same in other seeds.
            if run in baselines or len(self._runs) > 1 + len(baselines):
                of_all = (topic for topics in [*chosen.values()] for topic in topics)
                shared = (topic for topic in of_all if topic in there[run])
                chosen[run] = list(dict.fromkeys((*chosen[run], *shared)))
        return chosen

    def _of_topics(self, name: str, or_none: bool = False) -> DataFrame:
        """The rows of the answers `name` about the topics that are shown, or about none."""
        table = self._gold(name)
        pairs = [(run, topic) for run, topics in self.chosen.items() for topic in topics]
        shown = table.sparkSession.createDataFrame(pairs, "of_run string, of_topic string")
        same = "run = of_run AND (topic <=> of_topic" + (" OR topic IS NULL)" if or_none else ")")
        return table.join(F.broadcast(shown), F.expr(same), "left_semi")

    def _asked(self, tables: Mapping[str, DataFrame]) -> dict[str, dict[str, list[Row]]]:
        """The rows of `tables` by run, in two jobs at once: planning takes longer than running, one
        thread plans a job, and one plan for many tables takes less than many plans."""
        asked = list(tables.items())
        halves = [dict(half) for half in (asked[::2], asked[1::2]) if half]
        rows: dict[str, dict[str, list[Row]]] = {name: defaultdict(list) for name in tables}
        with ThreadPoolExecutor(len(halves)) as pool:
            for answered in pool.map(together, halves):
                for name, found in answered.items():
                    for row in found:
                        rows[name][row.pop("run")].append(row)
        return rows

    def _tree(self, best: DataFrame) -> DataFrame:
        chosen = F.broadcast(best.select("run", "message"))
        got = self._silver("deliveries").join(chosen, ["run", "message"])
        nearest = [F.col("hops").asc_nulls_last(), F.col("peer")]
        near = first(got, nearest, 10 * self._params.drawn, "topic")
        return near.select("run", "topic", "peer", "parent")

    def _links(self, best: DataFrame) -> DataFrame:
        """The overlay when the message of the drawing was published."""
        chosen = F.broadcast(best.selectExpr("run", "topic AS of", "published"))
        links = self._silver("links").where(F.col("kind").isin(*OVERLAYS))
        there = links.join(chosen, "run").where(
            "(topic IS NULL OR topic = of) AND since <= published "
            "AND (until IS NULL OR until > published)"
        )
        pairs = there.selectExpr(
            "run", "of", "kind", "least(peer, remote) AS a", "greatest(peer, remote) AS b"
        )
        in_order = [F.col("a"), F.col("b")]
        drawn = first(pairs.distinct(), in_order, 100 * self._params.drawn, "of", "kind")
        return drawn.withColumnRenamed("of", "topic")
