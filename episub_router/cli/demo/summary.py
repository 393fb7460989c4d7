"""The figures of a demo, from what was recorded of each message."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from episub_router.cli.demo.recording import duplicates
from episub_router.cli.demo.run import DemoOutcome

WINDOW = 10
"""Messages at either end over which duplicates are averaged: a tree forms, then holds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the mean and the largest of some values."""

    min: float
    mean: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Zeros if there are no values."""
        return cls(min(values), fmean(values), max(values)) if values else cls(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What `episub demo` reports. A delivery is a message at a host that lived or got it before it
    was killed, not its source."""

    delivered: int
    expected: int
    repeated: int
    """Messages that an application received once more."""
    duplicates_first: float
    """Payloads received beyond the first, per delivery, over the first ten messages."""
    duplicates_last: float
    hops: Spread
    latency_p50: float
    """Seconds between publishing and the application's receipt; NaN without deliveries."""
    latency_p99: float
    active: Spread
    """Sizes of the live hosts' active views."""
    passive: Spread

    @property
    def complete(self) -> bool:
        """Whether every delivery was made, once."""
        return self.delivered == self.expected and not self.repeated


def summarize(outcome: DemoOutcome) -> Summary:
    """Work out the figures."""
    # Of the victims, nobody can tell whether the others missed a message or were gone: those that
    # have it count, as in the pipeline's figures.
    counted = [
        [host for host in (*outcome.live, *outcome.killed)
         if host != trace.source and (host in outcome.live or host in trace.arrivals)]
        for trace in outcome.traces
    ]  # fmt: skip
    deliveries = [
        (trace, host)
        for trace, hosts in zip(outcome.traces, counted, strict=True)
        for host in hosts
        if host in trace.arrivals
    ]
    # As in the simulator and the pipeline: over each message, then over the messages.
    hops: dict[int, list[int]] = {}
    for trace, host in deliveries:
        hops.setdefault(id(trace), []).append(trace.hops(host))
    latencies = sorted(trace.arrivals[host] - trace.published for trace, host in deliveries)
    return Summary(
        delivered=len(deliveries),
        expected=sum(map(len, counted)),
        repeated=sum(trace.repeated for trace in outcome.traces),
        duplicates_first=duplicates(outcome.traces[:WINDOW]),
        duplicates_last=duplicates(outcome.traces[-WINDOW:]),
        hops=Spread(
            min(map(min, hops.values()), default=0),
            fmean(map(fmean, hops.values())) if hops else 0,
            max(map(max, hops.values()), default=0),
        ),
        latency_p50=percentile(latencies, 0.50),
        latency_p99=percentile(latencies, 0.99),
        active=Spread.of(outcome.active),
        passive=Spread.of(outcome.passive),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ascending values; NaN if there are none."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
