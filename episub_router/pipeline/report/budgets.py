"""What the figures of a run must be: `p99<1s`, `lost=0`, `bytes_per_delivery<=3000`."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from episub_router.pipeline.report.figures import Figure, figure
from episub_router.pipeline.report.model import Report

_NAMES = {"p50": "latency_p50", "p99": "latency_p99", "max": "latency_max", "lost": "missing"}
"""Short for figures."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip

_SCALES = {
    "ns": {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0},
    "s": {"s": 1.0, "ms": 1e-3},
    "share": {"%": 0.01, "": 1.0},
    "bytes": {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6},
    "number": {"": 1.0},
    "count": {"": 1.0},
}
"""What a limit may be given in, by the figure's unit."""

_BUDGET = re.compile(r"\s*(\w+)\s*(<=|>=|<|>|=)\s*([0-9.]+(?:e-?[0-9]+)?)\s*([a-zA-Z%]*)\s*")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on a figure."""

    text: str
    figure: Figure
    comparison: str
    limit: float
    """In the unit of the figure."""

    def holds(self, value: float | None) -> bool:
        """Whether `value` keeps to it; what isn't known doesn't."""
        return value is not None and _COMPARISONS[self.comparison](value, self.limit)


@dataclass(frozen=True, slots=True)
class Checked:
    """A budget held against one topic: the values of all its runs."""

    budget: Budget
    label: str
    values: Sequence[float | None]

    @property
    def kept(self) -> bool:
        """Whether every run keeps to it."""
        return all(map(self.budget.holds, self.values))


def parse_budget(text: str) -> Budget:
    """The budget that `text` says. Raises ValueError with what is wrong with it."""
    match = _BUDGET.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: a budget is FIGURE, one of < <= = >= >, and a limit")
    name, comparison, number, unit = match.groups()
    try:
        found = figure(_NAMES.get(name, name))
        limit = float(number)
    except KeyError:
        raise ValueError(f"{text!r}: there is no figure {name}") from None
    scales = _SCALES[found.unit]
    if unit not in scales:
        units = ", ".join(scale or "no unit" for scale in scales)
        raise ValueError(f"{text!r}: the limit is given in {units}")
    return Budget(text, found, comparison, limit * scales[unit])


def check(report: Report, budgets: Sequence[Budget]) -> list[Checked]:
    """Each budget against each topic of the runs that are judged; the baseline is not."""
    return [
        Checked(budget, topic.label, topic.values(budget.figure.name))
        for budget in budgets
        for run in report.runs
        for topic in run.topics
    ]


def as_markdown(checked: Sequence[Checked]) -> str:
    """The verdict for a pull request."""
    broken = sum(not one.kept for one in checked)
    head = "Budgets: all kept" if not broken else f"Budgets: {broken} of {len(checked)} broken"
    rows = [
        f"| {one.budget.text} | {one.label.replace('|', ' ')} | "
        + ", ".join(one.budget.figure.shown(value) for value in one.values)
        + f" | {'kept' if one.kept else '**broken**'} |"
        for one in checked
    ]
    return "\n".join([f"## {head}", "", "| budget | run | figure | |", "|---|---|---:|---|", *rows])
