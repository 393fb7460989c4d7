"""The figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from interop.testbed.checker.calm import Calm
from interop.testbed.checker.latency import calm_latencies, latencies, percentile
from interop.testbed.checker.violation import Violation
from interop.testbed.history.records import History
from interop.testbed.scenario import Promises

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run in figures. Latencies are milliseconds, from when a publisher was asked to publish."""

    asked: int
    accepted: int
    deliveries: int
    repeats: int
    """Deliveries to one session beyond the first of each message."""
    missing: int
    """Pairs of an accepted message and a host that it never came to."""
    missing_near: int
    """Of these, where no fault kept the two apart when it was published."""
    longest_wait: float
    """Seconds between the request to publish and its acceptance, at most."""
    calm_p50: float
    calm_p99: float
    p99: float
    slowest: float
    memory: float
    """MiB of the largest process in the end."""
    cpu: float
    """Seconds, of all processes that ran at the end."""
    violations: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(history: History, promises: Promises, violations: Sequence[Violation]) -> Summary:
    """The figures of `history`."""
    calm = Calm(history, promises.heal)
    every = [latency.seconds for latency in latencies(history)]
    quiet = calm_latencies(history, promises.heal)
    sessions = Counter((e.host, e.session, e.message) for e in history.delivered)
    reached = {(e.message, e.host) for e in history.delivered}
    gone = [
        (event, host)
        for event in history.accepted
        for host in range(history.hosts)
        if host != event.host and (event.message, host) not in reached
    ]
    near = [
        (event, host)
        for event, host in gone
        if calm.up(host, event.time) and not calm.apart(event.host, host, event.time)
    ]
    last = {usage.host: usage for usage in history.usage}.values()
    return Summary(
        asked=len(history.asked),
        accepted=len(history.accepted),
        deliveries=len(reached),
        repeats=sum(sessions.values()) - len(sessions),
        missing=len(gone),
        missing_near=len(near),
        longest_wait=round(max((e.time - e.asked for e in history.accepted), default=0.0), 2),
        calm_p50=_milliseconds(quiet, 0.5),
        calm_p99=_milliseconds(quiet, 0.99),
        p99=_milliseconds(every, 0.99),
        slowest=_milliseconds(every, 1.0),
        memory=round(max((usage.memory for usage in last), default=0) / _MIB, 1),
        cpu=round(sum(usage.cpu for usage in last), 1),
        violations=dict(Counter(violation.promise for violation in violations)),
    )


def _milliseconds(values: Sequence[float], share: float) -> float:
    return round(percentile(values, share) * 1000, 1)


def lines(history: History, summary: Summary, violations: Sequence[Violation]) -> list[str]:
    """The figures as text, and the first violations of each kind."""
    found = [
        f"{history.name}: {history.hosts} hosts, {history.duration:g} s, "
        f"{len(history.faults)} faults",
        *(f"  {name.replace('_', ' ')}: {value}" for name, value in summary.as_json().items()),
    ]
    shown: Counter[str] = Counter()
    for violation in violations:
        shown[violation.promise] += 1
        if shown[violation.promise] <= _SHOWN:
            found.append(f"VIOLATION {violation}")
    found.append(f"{len(violations)} violations")
    return found


_SHOWN = 5
"""Violations of one promise that are printed."""
