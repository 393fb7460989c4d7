"""Promises about processes: rest, death."""

from __future__ import annotations

from collections.abc import Iterator

from interop.testbed.checker.violation import Violation
from interop.testbed.faults import FaultKind
from interop.testbed.history.records import History, Lived, Usage
from interop.testbed.scenario import Promises

_MIB = 2**20


def check(history: History, promises: Promises) -> Iterator[Violation]:
    """All violations of these promises."""
    yield from _death(history)
    yield from _rest(history, promises)


def _death(history: History) -> Iterator[Violation]:
    """No process ends unless it was asked to, or has no memory."""
    for event in history.events:
        if isinstance(event, Lived) and event.state == "death":
            starved = any(
                fault.kind == FaultKind.MEMORY
                and event.host in fault.hosts
                and fault.at <= event.time <= fault.end
                for fault in history.faults
            )
            if not starved:
                yield Violation("death", event.time, f"host {event.host} ended by itself")


def _rest(history: History, promises: Promises) -> Iterator[Violation]:
    """In the end processes hold about what they held before the first fault."""
    first = min((fault.at for fault in history.faults), default=history.duration / 2)
    before = [usage for usage in history.usage if usage.time <= first]
    last: dict[int, Usage] = {usage.host: usage for usage in history.usage}
    if not before:
        return
    limits = (
        ("descriptors", max(u.descriptors for u in before), promises.descriptors),
        ("threads", max(u.threads for u in before), promises.threads),
        ("memory", max(u.memory for u in before) // _MIB, promises.memory),
    )
    for usage in last.values():
        found = {
            "descriptors": usage.descriptors,
            "threads": usage.threads,
            "memory": usage.memory // _MIB,
        }
        for what, most, more in limits:
            if found[what] > most + more:
                unit = " MiB of" if what == "memory" else ""
                text = f"host {usage.host} holds {found[what]}{unit} {what} in the end"
                yield Violation("rest", usage.time, f"{text}; before the first fault {most}")
