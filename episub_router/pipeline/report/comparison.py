"""Whether a figure of some runs differs from that of others by more than chance.

A side is some runs that differ by their seed alone. The band is the 95 % interval of the difference
of the means, by the bootstrap over runs (Efron and Tibshirani, 1993): runs are drawn again with
replacement. Fewer than three runs a side say nothing about chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from episub_router.pipeline.report.figures import Figure, direction, shown_change

ENOUGH_RUNS = 3
"""A side, from which on there is a band: two runs have one distance, and no idea of it."""

RESAMPLES = 2_000
"""Ours: the band's ends then vary by about 1 % of its width."""

_BAND = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure held against the baseline's."""

    value: float | None
    """The mean over the runs that have it."""
    before: float | None
    low: float | None
    """The band of `value - before`; None where there are too few runs."""
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


def compare(
    figure: Figure, values: Sequence[float | None], before: Sequence[float | None]
) -> Comparison:
    """Hold the `values` of a side's runs against those of the baseline's."""
    ours = [value for value in values if value is not None]
    theirs = [value for value in before if value is not None]
    value, other = mean_of(ours), mean_of(theirs)
    way = direction(figure, value, other)
    shown = shown_change(value, other)
    if not way or min(len(ours), len(theirs)) < ENOUGH_RUNS:
        words = f"{way}; too few runs to tell from chance" if way else ""
        return Comparison(value, other, None, None, shown, "", words)
    low, high = band(ours, theirs)
    if low <= 0 <= high:
        return Comparison(value, other, low, high, shown, "", "within chance")
    return Comparison(value, other, low, high, shown, way, way)


def band(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The interval of mean(ours) - mean(theirs); the same for the same values."""
    rng = np.random.default_rng(0)
    drawn = [
        rng.choice(np.asarray(side), (RESAMPLES, len(side))).mean(axis=1) for side in (ours, theirs)
    ]
    low, high = np.percentile(drawn[0] - drawn[1], _BAND)
    return float(low), float(high)
