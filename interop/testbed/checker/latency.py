"""The promise about latency: slowdown. And the latencies themselves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interop.testbed.checker.calm import Calm
from interop.testbed.checker.violation import Violation
from interop.testbed.faults import SEPARATING, SILENCING
from interop.testbed.history.records import History
from interop.testbed.scenario import Promises

_BEFORE = 2.0
"""Seconds before a fault in which what is published may still meet it."""
_LEAST = 0.1
"""Seconds of p99 that are never a slowdown: processes share a few cores."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one delivery took."""

    published: float
    seconds: float
    source: int
    host: int


def latencies(history: History) -> list[Latency]:
    """Of all first deliveries, from when the publisher was asked to publish."""
    seen: set[tuple[str, int]] = set()
    found = []
    for event in history.delivered:
        asked = history.asked.get(event.message)
        if asked is not None and (event.message, event.host) not in seen:
            seen.add((event.message, event.host))
            time, source = asked
            found.append(Latency(time, event.time - time, source, event.host))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that `share` of the values don't exceed; 0 for none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def calm_latencies(history: History, heal: float) -> list[float]:
    """Of what was published while there was no fault, nor would be for a moment, nor had been for
    `heal` seconds."""
    disturbed: list[tuple[float, float]] = []
    """Times that don't overlap, in order."""
    for fault in sorted(history.faults, key=lambda fault: fault.at):
        begin, end = fault.at - _BEFORE, fault.end + heal
        if disturbed and begin <= disturbed[-1][1]:
            begin, before = disturbed.pop()
            end = max(end, before)
        disturbed.append((begin, end))
    begins = [begin for begin, _ in disturbed]

    def is_calm(time: float) -> bool:
        place = bisect_right(begins, time) - 1
        return place < 0 or time > disturbed[place][1]

    return [found.seconds for found in latencies(history) if is_calm(found.published)]


def check(history: History, promises: Promises, calm: Calm) -> Iterator[Violation]:
    """Once a silence has been noticed, the others are hardly slower than before."""
    if not promises.slowdown:
        return
    most = max(_LEAST, promises.slowdown * percentile(calm_latencies(history, promises.heal), 0.99))
    for fault in history.faults:
        since = fault.at + promises.notice
        if fault.kind not in SEPARATING | SILENCING or since >= fault.end:
            continue
        found = [
            latency.seconds
            for latency in latencies(history)
            if since <= latency.published <= fault.end
            and not calm.apart(latency.source, latency.host, latency.published)
            and calm.host(latency.host, latency.published, latency.published + latency.seconds)
            and calm.host(latency.source, latency.published, latency.published)
        ]
        slow = percentile(found, 0.99)
        if slow > most:
            text = f"p99 is {slow * 1000:.0f} ms from then on in the {fault.text()}"
            yield Violation("slowdown", since, f"{text}; at most {most * 1000:.0f} ms was promised")
