"""From the tables of a lake to a report."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from episub_router.pipeline.lake import Lake, LakeError
from episub_router.pipeline.report.comparison import mean_of
from episub_router.pipeline.report.model import Report, Row, Run
from episub_router.pipeline.report.notes import notes
from episub_router.pipeline.report.params import ReportParams
from episub_router.pipeline.report.queries import COST, largest
from episub_router.pipeline.report.rows import RunRows, spreads


def gather(
    lake: Lake, runs: Sequence[str], baselines: Sequence[str], params: ReportParams
) -> Report:
    """The report on `runs`, against `baselines`, which are one side of runs that differ by their
    seed; so are simulated ones among `runs` whose names differ by the seed at the end alone. Raises
    LakeError where a run has no answers."""
    wanted = list(dict.fromkeys((*runs, *baselines)))
    there = {run: spreads(lake, run) for run in wanted}
    missing = [run for run, topics in there.items() if not topics]
    if missing:
        raise LakeError(
            f"no answers for run {', '.join(missing)}: `episub pipeline answers` makes them, "
            "if the run has any messages"
        )
    chosen = _chosen(there, baselines, params.topics)
    made = {
        run: RunRows(lake, run, params).run(shown, len(there[run]) - len(shown))
        for run, shown in chosen.items()
    }
    alone = all(len(run.topics) == 1 for run in made.values())
    sides = _sides([made[name] for name in dict.fromkeys(runs) if name not in baselines])
    if baselines:
        sides.append([made[name] for name in dict.fromkeys(baselines)])
    shown = [_side(side, alone, params.points) for side in sides]
    against = shown.pop() if baselines else None
    (deadline, *others) = {run.quality["deadline"] for run in made.values()}
    if others:
        raise LakeError(
            "the runs were answered with different deadlines: `episub pipeline answers` makes "
            "their answers anew"
        )
    signs = ("quarantined", "cut_short")
    damaged = [run.name for run in made.values() if any(map(run.quality.get, signs))]
    return Report(shown, against, deadline, notes([*made.values()]), damaged)


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


def _side(runs: Sequence[Run], alone: bool, most: int) -> Run:
    """The first of `runs`, with the figures, causes and faults of all."""
    (chosen, *others) = runs
    name = f"{_stem(chosen.name)} ({len(runs)} runs)" if others else chosen.name
    topics = []
    for topic in chosen.topics:
        same = [other for run in runs for other in run.topics if other.topic == topic.topic]
        label = name if alone else f"{name} · {topic.topic}"
        seeds = [str(run.about.get("seed", run.name)) for run in runs for other in run.topics
                 if other.topic == topic.topic]  # fmt: skip
        causes = {
            cause: (sum(late), sum(lost))
            for cause in dict.fromkeys(cause for other in same for cause in other.causes)
            for late, lost in [zip(*(o.causes.get(cause, (0, 0)) for o in same), strict=True)]
        }
        rests = [other.rest for other in same if other.rest]
        topics.append(replace(
            topic, label=label, of_runs=[other.figures for other in same], seeds=seeds,
            causes=causes, missing=_added(other.missing for other in same),
            duplicates=_added(other.duplicates for other in same),
            rest={name: (mean_of if name.startswith("latency") else sum)([r[name] for r in rests])
                  for name in (*topic.rest,) if name != "topic"},
        ))  # fmt: skip
    faults = largest((fault for run in runs for fault in run.faults), most, *COST)
    return replace(chosen, topics=topics, replicas=[run.name for run in others], faults=faults)


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for one in counts:
        total.update(one)
    return dict(total)


def _chosen(
    there: Mapping[str, Sequence[Row]], baselines: Sequence[str], most: int
) -> dict[str, list[Row]]:
    """The topics of each run that are shown: those with the most messages, and of the baseline
    those that others are held against."""
    names = {run: {row["topic"] for row in topics[:most]} for run, topics in there.items()}
    for run in there:
        # Also what others are held against, and what is the same in other seeds.
        if run in baselines or len(there) > 1 + len(baselines):
            names[run] = names[run].union(*names.values())
    return {run: [row for row in topics if row["topic"] in names[run]]
            for run, topics in there.items()}  # fmt: skip
