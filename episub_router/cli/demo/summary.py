"""The figures of a demo, from what was recorded of each message."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from episub_router.cli.demo.recording import duplicates
from episub_router.cli.demo.run import DemoOutcome

WINDOW = 10
"""Messages at either end over which duplicates are averaged: a tree forms, then holds."""


def summarize(outcome: DemoOutcome) -> dict[str, Any]:
    """What `episub demo` reports, as one JSON document; times in milliseconds, except where a key
    says seconds. A delivery is a message at a host that lived or got it before it was killed, not
    its source."""
    config, traces, last = outcome.config, outcome.traces, outcome.traces[-1]
    # Of the victims, nobody can tell whether the others missed a message or were gone: those that
    # have it count, as in the pipeline's figures.
    got = [
        [host for host in (*outcome.live, *outcome.killed) if host in trace.arrivals]
        for trace in traces
    ]
    missing = {
        str(number): absent
        for number, trace in enumerate(traces, 1)
        if (absent := [h for h in outcome.live if h not in (trace.source, *trace.arrivals)])
    }
    delivered = sum(map(len, got))
    repeated = sum(trace.repeated for trace in traces)
    # As in the simulator and the pipeline: over each message, then over the messages.
    hops = [
        [trace.hops(host) for host in hosts]
        for trace, hosts in zip(traces, got, strict=True)
        if hosts
    ]
    latencies = sorted(
        trace.arrivals[host] - trace.published
        for trace, hosts in zip(traces, got, strict=True)
        for host in hosts
    )
    return {
        "hosts": config.hosts,
        "messages": config.messages,
        "size": config.size,
        "sources": sorted({trace.source for trace in traces}),
        "seed": config.seed,
        "killed": list(outcome.killed),
        "complete": not missing and not repeated,
        "delivered": delivered,
        "expected": delivered + sum(map(len, missing.values())),
        "repeated": repeated,
        "duplicates_per_delivery": {
            "first_ten": round(duplicates(traces[:WINDOW]), 3),
            "last_ten": round(duplicates(traces[-WINDOW:]), 3),
        },
        "hops": {
            "min": min(map(min, hops), default=0),
            "mean": round(fmean(map(fmean, hops)), 3) if hops else 0,
            "max": max(map(max, hops), default=0),
        },
        "application_latency_ms": {
            "p50": _milliseconds(percentile(latencies, 0.50)),
            "p99": _milliseconds(percentile(latencies, 0.99)),
        },
        "active_view": _spread(outcome.active),
        "passive_view": _spread(outcome.passive),
        "joining_seconds": round(outcome.joining, 3),
        "broadcasting_seconds": round(outcome.broadcasting, 3),
        "errors": outcome.errors,
        "failures": {str(host): repr(error) for host, error in outcome.failures.items()},
        "missing": missing,
        "last_path": {
            "source": last.source,
            "parents": {str(host): parent for host, parent in sorted(last.parents.items())},
            "arrivals_ms": {
                str(host): _milliseconds(at - last.published)
                for host, at in sorted(last.arrivals.items())
            },
        },
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ascending values; NaN if there are none."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _milliseconds(seconds: float) -> float | None:
    return None if math.isnan(seconds) else round(seconds * 1000, 3)


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Zeros if there are no values."""
    if not values:
        return {"min": 0, "mean": 0, "max": 0}
    return {"min": min(values), "mean": round(fmean(values), 3), "max": max(values)}
