"""Promises about messages: reach, cross, first, once, invented, wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from interop.testbed.checker.calm import Calm
from interop.testbed.checker.violation import Violation
from interop.testbed.faults import FaultKind
from interop.testbed.history.records import Accepted, History, Lived, Neighbors, Refused
from interop.testbed.scenario import Promises


def check(history: History, promises: Promises, calm: Calm) -> Iterator[Violation]:
    """All violations of these promises."""
    arrivals = _arrivals(history)
    yield from _reach(history, promises, calm, arrivals)
    yield from _cross(history, promises, calm, arrivals)
    yield from _first(history, promises, arrivals)
    yield from _once(history)
    yield from _wait(history, promises, calm)


def _arrivals(history: History) -> dict[tuple[str, int], float]:
    """When a message first came to a host."""
    found: dict[tuple[str, int], float] = {}
    for event in history.delivered:
        found.setdefault((event.message, event.host), event.time)
    return found


def _reach(
    history: History, promises: Promises, calm: Calm, arrivals: dict[tuple[str, int], float]
) -> Iterator[Violation]:
    """What was accepted is delivered wherever nothing kept it from."""
    for event in history.accepted:
        since, until = event.time, event.time + promises.deadline
        if until > history.duration or not calm.host(event.host, since, since + promises.grace):
            continue
        for host in range(history.hosts):
            # The arrival first: there are many messages, and nearly all of them came.
            if (
                host != event.host
                and arrivals.get((event.message, host), until + 1) > until
                and calm.host(host, since, until)
                and calm.pair(event.host, host, since, until)
            ):
                yield _missed("reach", event, host, arrivals, until)


def _cross(
    history: History, promises: Promises, calm: Calm, arrivals: dict[tuple[str, int], float]
) -> Iterator[Violation]:
    """What was accepted shortly before the end of a cut is delivered on the other side."""
    for fault in history.faults:
        until = fault.end + promises.heal
        if fault.kind != FaultKind.CUT or until > history.duration:
            continue
        for event in history.accepted:
            if not max(fault.at, fault.end - promises.late) <= event.time <= fault.end:
                continue
            if not calm.host(event.host, event.time, until):
                continue
            for host in range(history.hosts):
                if (
                    arrivals.get((event.message, host), until + 1) > until
                    and calm.separates(fault, event.host, host)
                    and calm.host(host, event.time, until)
                    and calm.pair(event.host, host, event.time, until, but=fault)
                ):
                    yield _missed("cross", event, host, arrivals, until)


def _first(
    history: History, promises: Promises, arrivals: dict[tuple[str, int], float]
) -> Iterator[Violation]:
    """Where a host has moved, something that was published since comes to it soon."""
    moves = [fault for fault in history.faults if fault.kind == FaultKind.MOVE]
    for host, times in ((host, (move.at, move.end)) for move in moves for host in move.hosts):
        for moved in times:
            came = (
                arrivals.get((message, host), history.duration)
                for message, (asked, publisher) in history.asked.items()
                if asked > moved and publisher != host
            )
            first = min(came, default=history.duration) - moved
            if promises.first < min(first, history.duration - moved):
                text = f"host {host} moved, and the first message came {first:.1f} s later"
                yield Violation("first", moved, text)


def _missed(
    promise: str,
    event: Accepted,
    host: int,
    arrivals: dict[tuple[str, int], float],
    until: float,
) -> Violation:
    came = arrivals.get((event.message, host))
    late = "never" if came is None else f"only at {came:.1f} s"
    return Violation(
        promise,
        event.time,
        f"{event.message} of host {event.host} was due at host {host} by {until:.1f} s, "
        f"and came {late}",
    )


def _once(history: History) -> Iterator[Violation]:
    """Each message comes at most once to a session, and none that nobody published."""
    count = Counter((event.host, event.session, event.message) for event in history.delivered)
    for event in history.delivered:
        times = count.pop((event.host, event.session, event.message), 1)
        if times > 1:
            text = f"{event.message} came {times} times to session {event.session} of host"
            yield Violation("once", event.time, f"{text} {event.host}")
        if event.message not in history.asked:
            text = f"host {event.host} got {event.message}, which nobody published"
            yield Violation("invented", event.time, text)


def _alone(history: History) -> list[list[tuple[float, float]]]:
    """For each host that reports neighbours, the time from each of its starts to the first one."""
    found: list[list[tuple[float, float]]] = [[] for _ in range(history.hosts)]
    started: dict[int, float] = {}
    for event in history.events:
        if isinstance(event, Lived) and event.state == "start":
            started[event.host] = event.time
        elif isinstance(event, Neighbors) and event.hosts and event.host in started:
            found[event.host].append((started.pop(event.host), event.time))
    reports = {event.host for event in history.events if isinstance(event, Neighbors)}
    for host, since in started.items():
        if host in reports:
            found[host].append((since, history.duration))
    return found


def _wait(history: History, promises: Promises, calm: Calm) -> Iterator[Violation]:
    """Publishing is done, or refused with a reason, soon after it was asked for, by a process that
    has had a neighbour: until then its input waits."""
    answered = {e.message: e for e in history.events if isinstance(e, Accepted | Refused)}
    alone = _alone(history)
    for message, (asked, host) in history.asked.items():
        began = next((end for since, end in alone[host] if since <= asked <= end), asked)
        until = began + promises.wait
        done = answered.get(message)
        if until > history.duration or not calm.host(host, asked, until):
            continue
        if done is None or done.time > until:
            took = "never was" if done is None else f"took {done.time - asked:.1f} s to be"
            yield Violation("wait", asked, f"{message} {took} published by host {host}")
