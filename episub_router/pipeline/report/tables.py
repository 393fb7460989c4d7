"""The report's tables: headings and cells as text, for every format alike."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from episub_router.pipeline.answers.causes import FAULTS
from episub_router.pipeline.report.comparison import compare, mean_of
from episub_router.pipeline.report.figures import GROUPS, Figure, figure
from episub_router.pipeline.report.model import Report, Row, Run, TopicReport

CHANGE = "change"
"""The heading of how far a side is from the baseline."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text, and how it is meant: `better`, `worse`, or nothing of the kind."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; all rows are as long as the heads, and the first cell of each names it."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def _table(heads: str, rows: Iterable[Sequence[object]]) -> Table:
    """A table of text; heads are parted by `|`."""
    return Table(heads.split("|"), [[Cell(str(text)) for text in row] for row in rows])


def headline(report: Report) -> str:
    """The verdict in some sentences."""
    sentences = []
    for topic in report.topics:
        missing = mean_of(topic.values("missing")) or 0
        lost = f"{_shown('missing', missing)} deliveries are missing"
        lost = "nothing was lost" if not missing else lost + " a run" * (len(topic.of_runs) > 1)
        late = mean_of(topic.values("latency_p99"))
        sent = mean_of(topic.values("bytes_per_delivery"))
        sentences.append(
            f"{topic.label}: {lost}"
            + (f", p99 {_shown('latency_p99', late)}" if late else "")
            + (f", {_shown('bytes_per_delivery', sent)} per delivery" if sent else "")
            + _of_faults(topic)
        )
    sentences += [said for topic in report.topics if (said := _against(report, topic))]
    sentences += [f"of {run.name}, this is what its stream has answered so far"
                  for run in report.all_runs if run.quality.get("streamed")]  # fmt: skip
    if report.damaged:
        sentences.append(f"traces of {_few(report.damaged)} are damaged: see the data's quality")
    return "; ".join(sentences) + "."


_MATTERS = {"missing": "deliveries", "latency_p99": "p99", "bytes_per_delivery": "bytes"}
"""What a verdict is about, by figure."""


def _against(report: Report, topic: TopicReport) -> str:
    """By what `topic` is better or worse than what it is held against."""
    other = report.baseline_of(topic)
    if other is None:
        return ""
    said: dict[str, list[str]] = {}
    for name, word in _MATTERS.items():
        found = compare(figure(name), topic.by_seed(name), other.by_seed(name), report.compared)
        if found.value is not None and found.before is not None:
            shown = f"{word} ({found.shown})" if found.tone else word
            said.setdefault(found.tone or found.words or "the same", []).append(shown)
    parts = [f"{how} in {', '.join(words)}" for how, words in said.items()]
    return f"{topic.label} against {other.label}: {'; '.join(parts)}" if parts else ""


def _of_faults(topic: TopicReport) -> str:
    late, lost = (sum(counts[place] for counts in topic.causes.values()) for place in (0, 1))
    outside = (*FAULTS, "slow")
    explained = sum(sum(topic.causes.get(cause, (0, 0))) for cause in outside)
    if not explained:
        return ""
    p99 = topic.rest.get("latency_p99")
    without = f"; p99 without them {_shown('latency_p99', p99)}" if p99 is not None else ""
    return (
        f" ({explained:,} of {late + lost:,} late or lost deliveries were met by faults or slow "
        f"links{without})"
    )


def _shown(name: str, value: float | None) -> str:
    return figure(name).shown(value)


def verdicts(report: Report) -> dict[str, Table]:
    """All figures of all topics by group, as means over a side's runs; of those that have a
    baseline, the change, and which side is better by more than chance."""
    heads = [""]
    for topic in report.topics:
        of_baseline = report.baseline is not None and topic.run == report.baseline.name
        heads.append(topic.label + (" (baseline)" if of_baseline else ""))
        if report.baseline_of(topic):
            heads.append(CHANGE)
    tables = {}
    for group, names in GROUPS.items():
        rows = [_verdict(report, figure(name)) for name in names]
        if any(rows):
            tables[group] = Table(heads, [row for row in rows if row])
    return tables


def _verdict(report: Report, one: Figure) -> list[Cell]:
    if all(mean_of(topic.values(one.name)) is None for topic in report.topics):
        return []
    row = [Cell(one.label)]
    for topic in report.topics:
        values = topic.values(one.name)
        row.append(Cell(one.shown(mean_of(values))))
        other = report.baseline_of(topic)
        if other:
            sides = topic.by_seed(one.name), other.by_seed(one.name)
            found = compare(one, *sides, report.compared)
            words = f" ({found.words})" if found.words and not found.tone else ""
            row.append(Cell(found.shown + words, found.tone))
    return row


def faults(report: Report) -> Table:
    """Which peers weren't there, or were apart from the others, and what was late or lost."""
    return _table("run|what|from|until|in time again|peers|late|lost", (
        (fault["run"], _fault(fault),
         *(_number(fault[at], ",.1f", " s") for at in ("after", "until", "calm_after")),
         _few(fault["peers"]), f"{fault['late']:,}", f"{fault['lost']:,}")
        for run in report.all_runs for fault in run.faults
    ))  # fmt: skip


def _fault(fault: Row) -> str:
    if fault["cause"] != "cut":
        return f"{fault['cause']}: {fault['detail']}" if fault["detail"] else str(fault["cause"])
    were = "1 peer was" if fault["count"] == 1 else f"{fault['count']:,} peers were"
    return f"cut: {were} apart from {fault['others']:,} others"


_NAMED = 8
"""Of peers and links in a cell at most."""


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def worst(report: Report) -> Table:
    """The peers that fared worst, and why."""
    return _table("run|peer|missing|late|mean latency|mean hops|why", (
        (run.name, row["peer"], *_shares(row), _ms(row["latency"]), _number(row["hops"], ".2f"),
         row["why"])
        for run in report.all_runs for row in run.worst
    ))  # fmt: skip


def _shares(row: Row) -> Sequence[str]:
    """What was missing and late, of what was expected."""
    return [f"{row[name]:,} of {row['expected']:,}" for name in ("missing", "late")]


def groups(report: Report) -> dict[str, Table]:
    """How peers fared by their software, protocol and region, where these aren't the same for all
    of a run; by the title of the table."""
    return {
        f"By {trait}": _table(
            f"run|{trait}|peers|missing|late|mean latency|p50|p99|mean hops",
            ((run.name, row["value"], f"{row['peers']:,}", *_shares(row),
              *(_ms(row[f"latency_{name}"]) for name in ("mean", "p50", "p99")),
              _number(row["hops_mean"], ".2f"))
             for run in report.all_runs for row in _different(run, trait)),
        )
        for trait in ("software", "protocol", "region")
    }  # fmt: skip


def _different(run: Run, trait: str) -> list[Row]:
    rows = [row for row in run.groups if row["trait"] == trait]
    return rows if len(rows) > 1 else []


def rests(report: Report) -> Table:
    """What was published without any fault."""
    return _table("topic|messages without faults|missing|late|p50|p99", (
        (topic.label, f"{rest['messages']:,}", f"{rest['live'] - rest['delivered']:,}",
         f"{rest['late']:,}", _shown("latency_p50", rest["latency_p50"]),
         _shown("latency_p99", rest["latency_p99"]))
        for topic in report.topics if (rest := topic.rest)
    ))  # fmt: skip


def causes(report: Report) -> Table:
    """Why deliveries were late or lost."""
    return _table("deliveries of all runs of|cause|late|lost", (
        (topic.label, _WHY.get(cause, cause), f"{late:,}", f"{lost:,}")
        for topic in report.topics for cause, (late, lost) in sorted(topic.causes.items())
    ))  # fmt: skip


def missing(report: Report) -> Table:
    """What did not arrive, and why."""
    return _table("messages to all runs of|why|count", (
        (topic.label, _WHY.get(reason, reason), f"{count:,}")
        for topic in report.topics for reason, count in sorted(topic.missing.items())
    ))  # fmt: skip


_WHY = {
    "down": "down: the peer wasn't running",
    "stopped": "stopped: the peer did nothing, and went on later",
    "cut": "cut: nothing passed between publisher and peer",
    "joining": "joining: the peer had no link yet",
    "slow": "slow: a link or a queue on the way",
    "overlay": "overlay: the router lost it, or was late to send it",
    "unknown": "unknown: the traces lack what would say it",
    "crash": "the peer crashed",
    "leave": "the peer left",
    "silent": "the peer fell silent",
}


def duplicates(report: Report) -> Table:
    """Copies in vain."""
    return _table("topic|cause|count", (
        (topic.label, cause, f"{count:,}")
        for topic in report.topics for cause, count in sorted(topic.duplicates.items())
    ))  # fmt: skip


def losses(report: Report) -> Table:
    """What was refused or not sent."""
    return _table("run|rejected, dropped or discarded|count", (
        (run.name, f"{row['kind']}: {row['reason'] or 'no reason given'}", f"{row['count']:,}")
        for run in report.all_runs for row in run.losses
    ))  # fmt: skip


def control(report: Report) -> Table:
    """Control messages sent, by kind."""
    return _table("run|kind|sent|ids|bytes|sent per delivery", (
        (run.name, row["kind"], f"{row['sends']:,}", f"{row['ids']:,}",
         _number(row["bytes"], ",.0f"), _number(row["sends_per_delivery"], ",.4f"))
        for run in report.all_runs for row in run.control
    ))  # fmt: skip


def recoveries(report: Report) -> Table:
    """Times at which peers were gone, and what it took to mend."""
    return _table("topic|at|peers|how|worst reliability|repaired after|RMR restored after", (
        (f"{topic.run} · {topic.topic}", f"{row['after']:,.1f} s", f"{row['nodes']:,}",
         row["ending"],
         _shown("worst_reliability", row["reliability_worst"]),
         *(_number(row[f"{name}_after"], ".2f", " s") for name in ("repaired", "rmr_restored")))
        for topic in report.topics for row in topic.faults
    ))  # fmt: skip


def load(report: Report) -> Table:
    """How evenly peers bear what."""
    return _table("run|figure|mean|most|Gini", (
        (run.name, name.replace("_", " "), _number(row["mean"], ",.1f"),
         _number(row["max"], ",.0f"), _number(row["gini"], ".3f"))
        for run in report.all_runs for name, row in sorted(run.balance.items())
    ))  # fmt: skip


def clocks(report: Report) -> Table:
    """The clocks that are off most."""
    return _table("run|peer|offset|uncertainty|correction", (
        (run.name, row["peer"], *(_ms(row[name]) for name in ("offset", "uncertainty",
                                                               "correction")))
        for run in report.all_runs for row in run.clocks
    ))  # fmt: skip


def channels(report: Report) -> Table:
    """SDS."""
    return _table(
        "run|channel|participants|messages|everywhere|logs|violations|resends per message|lost|"
        "mean time to ack",
        ((run.name, row["channel"],
          *(f"{row[name]:,}" for name in ("participants", "messages", "everywhere")),
          "equal" if row["converged"] else f"{row['different_logs']:,} different",
          f"{row['violations']:,}", _number(row["resends_per_message"], ".3f"),
          f"{row['lost']:,}", _ms(row["ack_latency_mean"]))
         for run in report.all_runs for row in run.channels),
    )  # fmt: skip


def about(report: Report) -> Table:
    """What the traces' headers say."""
    names = ("router", "scenario", "seed", "software")
    return _table("|".join(("run", *names, "topics")), (
        (run.name + (" (baseline)" if run is report.baseline else ""),
         *(run.about.get(name, "–") for name in names),
         ", ".join(topic.topic for topic in run.topics))
        for run in report.all_runs
    ))  # fmt: skip


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else format(value, form) + unit


def _ms(nanoseconds: float | None) -> str:
    return _number(None if nanoseconds is None else nanoseconds / 1e6, ",.3f", " ms")


def titles(topics: Sequence[TopicReport]) -> list[str]:
    """What each drawing shows."""
    return [
        f"{topic.label}: message {topic.drawing.message} over the {topic.drawing.kind or 'unknown'}"
        " links" + (f"; {topic.drawing.left_out:,} peers are not drawn" if topic.drawing.left_out
                    else "")
        if topic.drawing else ""
        for topic in topics
    ]  # fmt: skip
