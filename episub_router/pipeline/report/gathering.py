"""From the tables of a lake to a report: a few small queries for all runs together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
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
        self.rows: dict[str, dict[str, list[Row]]] = {}
        self._asked: dict[str, DataFrame] = {}
        self._keep("spread", self._gold("spread").where("window IS NULL"))
        self._ask()
        missing = [run for run in runs if run not in self.rows["spread"]]
        if missing:
            raise LakeError(
                f"no answers for run {', '.join(missing)}: `episub pipeline answers` makes them, "
                "if the run has any messages"
            )
        self.chosen = self._choose(baselines)
        for name in ("quality", "balance", "sds_channels", "faults", "rest"):
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
        self._keep("caused", caused(self._of_topics("causes")))
        self._keep("messages", averaged(self._of_topics("messages"), params.points))
        self._keep("load", ranked(self._gold("load"), params.points))
        causes = self._gold("causes")
        of_peers = fared(lake.read(SILVER, "arrivals", runs), causes)
        self._keep("worst", worst(of_peers, causes, params.worst, params.enough))
        clocks = lake.read(SILVER, "clocks", runs).where("offset IS NOT NULL")
        self._keep("clocks", first(clocks, [F.abs("offset").desc(), F.col("peer")], 5))
        headers = lake.records(runs).where("event = 'header' AND detail IS NOT NULL")
        self._keep("headers", abouts(headers, params.reasons))
        traits, groups = lake.read(SILVER, "traits", runs), self._gold("groups")
        self._keep("groups", by_trait(of_peers, traits, groups, params.reasons))
        best = first(
            self._of_topics("messages"),
            [F.col(name).desc() for name in ("reliability", "published", "message")],
            1,
            "topic",
        )
        self._keep("last", best.select("run", "topic", "message", "source", "receivers"))
        self._keep("tree", self._tree(best))
        self._keep("links", self._links(best))
        self._ask()

    def _gold(self, name: str) -> DataFrame:
        return self._lake.read(GOLD, name, self._runs)

    def _choose(self, baselines: Sequence[str]) -> dict[str, list[str | None]]:
        """The topics of each run that are shown: those with the most messages, and of the baseline
        those that others are held against."""
        chosen = {
            run: [
                row["topic"] for row in by_messages(self.rows["spread"][run])[: self._params.topics]
            ]
            for run in self._runs
        }
        for run in self._runs:
            # Also what others are held against, and what is the same in other seeds.
            there = {row["topic"] for row in by_messages(self.rows["spread"][run])}
            of_all = (topic for other in self._runs for topic in chosen[other] if topic in there)
            if run in baselines or len(self._runs) > 1 + len(baselines):
                chosen[run] = list(dict.fromkeys((*chosen[run], *of_all)))
        return chosen

    def _of_topics(self, name: str, or_none: bool = False) -> DataFrame:
        """The rows of the answers `name` about the topics that are shown, or about none."""
        table = self._gold(name)
        pairs = [(run, topic) for run, topics in self.chosen.items() for topic in topics]
        shown = table.sparkSession.createDataFrame(pairs, "of_run string, of_topic string")
        same = F.col("topic").eqNullSafe(F.col("of_topic"))
        if or_none:
            same |= F.col("topic").isNull()
        return table.join(F.broadcast(shown), (F.col("run") == F.col("of_run")) & same, "left_semi")

    def _keep(self, name: str, table: DataFrame) -> None:
        self._asked[name] = table

    def _ask(self) -> None:
        """Get the rows of all tables that are to be kept, in two jobs at once: planning takes
        longer than running, one thread plans a job, and one plan for many tables takes less than
        many plans."""
        asked = list(self._asked.items())
        halves = [dict(half) for half in (asked[::2], asked[1::2]) if half]
        with ThreadPoolExecutor(len(halves)) as pool:
            for answered in pool.map(together, halves):
                for name, found in answered.items():
                    by_run = self.rows[name] = defaultdict(list)
                    for row in found:
                        by_run[row.pop("run")].append(row)
        self._asked = {}

    def _tree(self, best: DataFrame) -> DataFrame:
        chosen = F.broadcast(best.select("run", "message"))
        got = self._lake.read(SILVER, "deliveries", self._runs).join(chosen, ["run", "message"])
        nearest = [F.col("hops").asc_nulls_last(), F.col("peer")]
        near = first(got, nearest, 10 * self._params.drawn, "topic")
        return near.select("run", "topic", "peer", "parent")

    def _links(self, best: DataFrame) -> DataFrame:
        """The overlay when the message of the drawing was published."""
        chosen = F.broadcast(best.select("run", F.col("topic").alias("of"), "published"))
        links = self._lake.read(SILVER, "links", self._runs).where(F.col("kind").isin(*OVERLAYS))
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
