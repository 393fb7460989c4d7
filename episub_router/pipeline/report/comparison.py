"""Whether a figure of some runs differs from that of others by more than chance.

A side is some runs that differ by their seed alone. Where both sides have runs of the same seeds,
these are pairs, and the interval is Student's of the mean difference; else it is Welch's of the
difference of the means. All figures of all topics that a report compares are compared at once: each
interval has the confidence at which all of them together hold in 95 % of the cases (Bonferroni).
Fewer than three runs a side say nothing about chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import stdtrit

from episub_router.pipeline.report.figures import FIGURES, Figure, direction, shown_change

ENOUGH_RUNS = 3
"""A side, from which on there is an interval: two runs have one distance, and no idea of it."""

CONFIDENCE = 0.95

COMPARED = sum(figure.better is not None for figure in FIGURES)
"""Figures of a topic that are compared."""

_LEAST = 0.01
"""Of a difference: less deviation between runs is a coincidence of few runs, not certainty."""
_OF_COUNTS = 0.5
"""Least deviation of what is counted in ones."""

Values = Mapping[str, float | None]
"""A figure by the seed of the run."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure held against the baseline's."""

    value: float | None
    """The mean over the runs that have it."""
    before: float | None
    low: float | None
    """The interval of `value - before`; None where there are too few runs."""
    high: float | None
    shown: str
    """The change for people."""
    tone: str
    """`better` or `worse` where the change is beyond chance, else empty."""
    words: str
    """Which side is better, and whether the runs show it."""


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of those that there are."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def compare(figure: Figure, values: Values, before: Values, topics: int = 1) -> Comparison:
    """Hold the `values` of a side's runs against those of the baseline's, one of so many `topics`
    of sides."""
    value, other = mean_of([*values.values()]), mean_of([*before.values()])
    way = direction(figure, value, other)
    shown = shown_change(value, other)
    found = interval(figure, values, before, topics) if way else None
    if found is None:
        words = f"{way}; too few runs to tell from chance" if way else ""
        return Comparison(value, other, None, None, shown, "", words)
    tone = "" if found[0] <= 0 <= found[1] else way
    return Comparison(value, other, *found, shown, tone, tone or "within chance")


def interval(
    figure: Figure, values: Values, before: Values, topics: int = 1
) -> tuple[float, float] | None:
    """The interval of the difference; None where there are too few runs."""
    ours = {seed: value for seed, value in values.items() if value is not None}
    theirs = {seed: value for seed, value in before.items() if value is not None}
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    least = _OF_COUNTS if figure.unit == "count" else 0.0
    if len(pairs) >= ENOUGH_RUNS:
        middle, freedom = fmean(pairs), len(pairs) - 1.0
        spread = max(_variance(pairs), _least(middle, least)) / len(pairs)
    elif min(len(ours), len(theirs)) >= ENOUGH_RUNS:
        sides = [[*ours.values()], [*theirs.values()]]
        middle = fmean(sides[0]) - fmean(sides[1])
        parts = [max(_variance(one), _least(middle, least)) / len(one) for one in sides]
        spread = sum(parts)
        shares = sum(part**2 / (len(one) - 1) for part, one in zip(parts, sides, strict=True))
        freedom = spread**2 / shares if shares else 1.0
    else:
        return None
    share = (1 - CONFIDENCE) / 2 / (COMPARED * topics)
    reach = float(stdtrit(freedom, 1 - share)) * spread**0.5
    return middle - reach, middle + reach


def _least(middle: float, least: float) -> float:
    return max(_LEAST * abs(middle), least) ** 2


def _variance(values: Sequence[float]) -> float:
    # That of `statistics` is exact, and takes a hundred times as long.
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)
