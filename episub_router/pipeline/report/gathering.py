"""From the tables of a lake to a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from episub_router.pipeline.lake import GOLD, SILVER, Lake, LakeError
from episub_router.pipeline.report.comparison import mean_of
from episub_router.pipeline.report.model import Report, Row, Run
from episub_router.pipeline.report.notes import notes
from episub_router.pipeline.report.params import ReportParams
from episub_router.pipeline.report.queries import (
    abouts,
    averaged,
    by,
    first,
    largest,
    looks,
    most_frequent,
    ranked,
    thinned,
)
from episub_router.pipeline.report.rows import OVERLAYS, ReportRows, by_messages


def gather(
    lake: Lake, runs: Sequence[str], baselines: Sequence[str], params: ReportParams
) -> Report:
    """The report on `runs`, against `baselines`, which are one side of runs that differ by their
    seed; so are simulated ones among `runs` whose names differ by the seed at the end alone. Raises
    LakeError where a run has no answers."""
    wanted = list(dict.fromkeys((*runs, *baselines)))
    spread = {run: _of_all(_rows(lake, "spread", run)) for run in wanted}
    missing = [run for run, rows in spread.items() if not rows]
    if missing:
        raise LakeError(
            f"no answers for run {', '.join(missing)}: `episub pipeline answers` makes them, "
            "if the run has any messages"
        )
    chosen = _chosen(spread, baselines, params.topics)
    made = {
        run: ReportRows(_taken(lake, run, chosen[run], params) | {"spread": spread[run]},
                        chosen[run], params).run(run)
        for run in wanted
    }  # fmt: skip
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


def _rows(lake: Lake, name: str, run: str, where: Any = None, layer: str = GOLD) -> list[Row]:
    rows: list[Row] = lake.look(layer, name, [run]).to_table(filter=where).drop(["run"]).to_pylist()
    return rows


def _of_all(rows: Iterable[Row]) -> list[Row]:
    """Those of the whole run."""
    return [row for row in rows if row["window"] is None]


def _chosen(
    spread: dict[str, list[Row]], baselines: Sequence[str], most: int
) -> dict[str, list[str | None]]:
    """The topics of each run that are shown: those with the most messages, and of the baseline
    those that others are held against."""
    there = {run: [row["topic"] for row in by_messages(rows)] for run, rows in spread.items()}
    chosen = {run: topics[:most] for run, topics in there.items()}
    for run in there:
        # Also what others are held against, and what is the same in other seeds.
        if run in baselines or len(there) > 1 + len(baselines):
            of_all = (topic for topics in [*chosen.values()] for topic in topics)
            shared = (topic for topic in of_all if topic in there[run])
            chosen[run] = list(dict.fromkeys((*chosen[run], *shared)))
    return chosen


def _taken(
    lake: Lake, run: str, chosen: Sequence[str | None], params: ReportParams
) -> dict[str, list[Row]]:
    """The rows of all tables that the report on `run` is made of, of the topics that are shown."""
    points, reasons = params.points, params.reasons

    def rows(name: str, layer: str = GOLD) -> list[Row]:
        return _rows(lake, name, run, layer=layer)

    def shown(name: str) -> list[Row]:
        return [row for row in rows(name) if row["topic"] in chosen]

    messages, faults, peers = shown("messages"), shown("recovery"), rows("peers")
    best = [max(of_topic, key=itemgetter("reliability", "published", "message"))
            for _, of_topic in by(messages, "topic")]  # fmt: skip
    means = {name: mean_of([peer[name] for peer in peers]) for name in ("latency", "hops")}
    usual = {f"usual_{name}": mean for name, mean in means.items()}
    known = [peer | usual for peer in peers if peer["expected"] >= params.enough]
    known.sort(key=lambda p: (-p["missing"], -p["late"], -(p["latency"] or 0), p["peer"]))
    clocks = [row for row in rows("clocks", layer=SILVER) if row["offset"] is not None]
    headers = lake.traced(run, "header").to_table(["detail"])["detail"].drop_null().to_pylist()
    return {
        **{name: rows(name) for name in ("quality", "balance", "sds_channels", "faults", "rest")},
        **{name: _of_all(shown(name)) for name in ("missing", "duplicate_causes")},
        "control_traffic": _of_all(rows("control_traffic")),
        "recovery": largest(faults, points),
        "mended": faults,
        "overlay": looks(
            (row for row in rows("overlay") if row["topic"] in (None, *chosen)), points
        ),
        "losses": most_frequent(_of_all(rows("loss_reasons")), reasons),
        "latency_cdf": thinned(shown("latency_cdf"), points),
        "caused": _caused(lake.look(GOLD, "causes", [run])),
        "messages": averaged(messages, points),
        "load": ranked(rows("load"), points),
        "worst": known[: params.worst],
        "clocks": sorted(clocks, key=lambda row: (-abs(row["offset"]), row["peer"]))[:5],
        "headers": abouts(headers, reasons),
        "groups": _groups(rows("groups"), rows("traits", layer=SILVER), peers, reasons),
        "last": best,
        **_drawn(lake, run, best, params.drawn),
    }  # fmt: skip


def _caused(causes: ds.Dataset) -> list[Row]:
    """How many pairs of each topic were late and lost for which cause."""
    table = causes.to_table(["topic", "cause", "latency"])
    counts = [("latency", "count"), ("latency", "count", pc.CountOptions("only_null"))]
    counted = table.group_by(["topic", "cause"]).aggregate(counts)
    rows: list[Row] = counted.rename_columns(["topic", "cause", "late", "lost"]).to_pylist()
    return rows


def _groups(
    groups: Iterable[Row], traits: Iterable[Row], peers: Iterable[Row], most: int
) -> list[Row]:
    """The table `groups` with what was late to them: of each trait the `most` largest."""
    late_of = {peer["peer"]: peer["late"] for peer in peers}
    late: dict[tuple[str, str], int] = {}
    for row in traits:
        key = row["trait"], row["value"]
        late[key] = late.get(key, 0) + late_of.get(row["peer"], 0)
    rows = [row | {"late": late[row["trait"], row["value"]]} for row in groups]
    return first(rows, lambda row: (-row["peers"], row["value"]), most, "trait")


def _drawn(lake: Lake, run: str, best: Iterable[Row], most: int) -> dict[str, list[Row]]:
    """The `tree` of a message of each topic, and the `links` of the overlay when it was
    published."""
    tree, links = [], []
    for message in best:
        topic, at = message["topic"], message["published"]
        got = _rows(lake, "deliveries", run, ds.field("message") == message["message"], SILVER)
        got.sort(key=lambda row: (row["hops"] is None, row["hops"], row["peer"]))
        tree += got[: 10 * most]
        until = ds.field("until")
        there = (
            ds.field("kind").isin(OVERLAYS) & (ds.field("since") <= at)
            & (until.is_null() | (until > at))
            & (ds.field("topic").is_null() | (ds.field("topic") == pa.scalar(topic, pa.string())))
        )  # fmt: skip
        pairs = {(row["kind"], *sorted((row["peer"], row["remote"])))
                 for row in _rows(lake, "links", run, there, SILVER)}  # fmt: skip
        rows = [dict(zip(("kind", "a", "b"), pair, strict=True)) for pair in sorted(pairs)]
        links += [row | {"topic": topic} for row in first(rows, str, 100 * most, "kind")]
    return {"tree": tree, "links": links}
