"""All promises at once."""

from __future__ import annotations

from interop.testbed.checker import causality, latency, messages, overlay, processes
from interop.testbed.checker.calm import Calm
from interop.testbed.checker.violation import Violation
from interop.testbed.history.records import History
from interop.testbed.scenario import Promises


def check(history: History, promises: Promises) -> list[Violation]:
    """What `promises` don't hold of `history`, by time."""
    calm = Calm(history, promises.heal)
    found = [
        *messages.check(history, promises, calm),
        *causality.check(history, calm),
        *overlay.check(history, promises, calm),
        *processes.check(history, promises),
        *latency.check(history, promises, calm),
    ]
    return sorted(found, key=lambda violation: violation.time)
