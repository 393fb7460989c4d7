"""Histories of runs that never were."""

from __future__ import annotations

from collections.abc import Callable

from interop.testbed.faults import Fault
from interop.testbed.history.records import (
    Accepted,
    Delivered,
    Event,
    History,
    Lived,
    Log,
    Neighbors,
    Usage,
)
from interop.testbed.lab.software import peer_id

HOSTS = 4
DURATION = 100.0
_DELAY = 0.05


def history(*faults: Fault, kind: str = "episub", duration: float = DURATION) -> History:
    """Each host publishes every ten seconds, and everything comes at once, faults or not; all
    are neighbours of all throughout."""
    everyone = range(HOSTS)
    made = History("made up", [kind] * HOSTS, duration, 1e9, [peer_id(host) for host in everyone])
    made.faults = list(faults)
    for host in everyone:
        made.events.append(Lived(0.0, host, 0, "ready"))
        made.events.append(Neighbors(0.0, host, 0, frozenset(everyone) - {host}))
    order = []
    for count in range(int(duration / 10)):
        for host in everyone:
            time = 10.0 * count + host
            message = f"m{host}-{count}"
            order.append(message)
            made.asked[message] = (time, host)
            after = (HOSTS - 1) * count + host
            made.events.append(Accepted(time, host, 0, message, time, after))
            made.events += [
                Delivered(time + _DELAY, other, 0, message) for other in everyone if other != host
            ]
    for second in range(int(duration)):
        for host in everyone:
            made.usage.append(Usage(float(second), host, 0, 90 << 20, 20, 3, second / 10))
    if kind == "sds":
        made.logs = [Log(host, tuple(order)) for host in everyone]
    made.events.sort(key=lambda event: event.time)
    return made


def drop(made: History, what: Callable[[Event], bool]) -> None:
    """Let events not have happened."""
    made.events = [event for event in made.events if not what(event)]


def add(made: History, *events: Event) -> None:
    """Let events have happened as well."""
    made.events = sorted([*made.events, *events], key=lambda event: event.time)


def is_delivery(message: str, host: int | None = None) -> Callable[[Event], bool]:
    """Of `message`, at `host` or anywhere."""
    return lambda event: (
        isinstance(event, Delivered) and event.message == message and host in (None, event.host)
    )
