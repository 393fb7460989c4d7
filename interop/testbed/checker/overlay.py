"""Promises about neighbours: connected, symmetric, notice, reason."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from interop.testbed.checker.calm import Calm, components
from interop.testbed.checker.violation import Violation
from interop.testbed.faults import SEPARATING, SILENCING, Fault, FaultKind
from interop.testbed.history.records import History, Neighbors, Parted
from interop.testbed.scenario import Promises

_STEP = 0.25
"""Seconds between two looks; views change for moments whenever one swaps neighbours."""
_EPISUB = ("episub", "sds", "episub-peer")
"""Kinds with symmetric views, of which these promises speak."""
_AFFECTING = SEPARATING | SILENCING | {FaultKind.MOVE}


class Views:
    """Which host has which as a neighbour, at any time."""

    def __init__(self, history: History) -> None:
        self._times: list[list[float]] = [[] for _ in range(history.hosts)]
        self._views: list[list[frozenset[int]]] = [[] for _ in range(history.hosts)]
        for event in history.events:
            if isinstance(event, Neighbors):
                self._times[event.host].append(event.time)
                self._views[event.host].append(event.hosts)

    def at(self, host: int, time: float) -> frozenset[int]:
        """The neighbours of `host` at `time`."""
        place = bisect_right(self._times[host], time)
        return self._views[host][place - 1] if place else frozenset()


def check(history: History, promises: Promises, calm: Calm) -> Iterator[Violation]:
    """All violations of these promises, where all hosts run Episub."""
    if not all(kind in _EPISUB for kind in history.kinds):
        return
    views = Views(history)
    for event in history.events:
        if isinstance(event, Parted) and not event.reason:
            text = f"host {event.host} didn't say why host {event.other} went"
            yield Violation("reason", event.time, text)
    for fault in history.faults:
        if fault.kind not in _AFFECTING:
            continue
        stopped = fault.kind == FaultKind.STOP
        notice = promises.notice_stop if stopped else promises.notice
        if notice and fault.kind != FaultKind.FLAP:
            yield from _notice(history, notice, calm, views, fault)
        yield from _healed(history, promises.heal, calm, views, fault)


def _notice(
    history: History, notice: float, calm: Calm, views: Views, fault: Fault
) -> Iterator[Violation]:
    """A silent host is nobody's neighbour. One way, the side that receives nothing decides."""
    time = fault.at + notice
    if time > fault.end:
        return
    for host in range(history.hosts):
        if not calm.up(host, time):
            continue
        silent = {
            other
            for other in views.at(host, time)
            if (fault.kind in SILENCING and other in fault.hosts and not calm.up(other, time))
            or (calm.separates(fault, host, other) and _hears_nothing(fault, host, other))
        }
        if silent:
            text = f"host {host} counts {sorted(silent)} as neighbours, {notice:g} s into"
            yield Violation("notice", time, f"{text} the {fault.text()}")


def _hears_nothing(fault: Fault, host: int, other: int) -> bool:
    return fault.kind == FaultKind.CUT or other in fault.hosts


def _healed(
    history: History, heal: float, calm: Calm, views: Views, fault: Fault
) -> Iterator[Violation]:
    """So long after the begin of the fault, and after its end, all that are up and can reach each
    other hang together, and views are symmetric."""
    everyone = set(range(history.hosts))
    victims = set(fault.hosts)
    if fault.kind == FaultKind.CUT:
        sides = [victims, everyone - victims]
        whole = not fault.others
    else:
        sides = [everyone - victims if fault.kind in SILENCING else everyone]
        whole = fault.kind in SILENCING or fault.kind == FaultKind.MOVE
    others = [f for f in history.faults if f.kind in _AFFECTING and f is not fault]
    for begin, groups, possible, when in (
        (fault.at, sides, whole and fault.at + heal <= fault.end, "begin"),
        (fault.end, [everyone], True, "end"),
    ):
        until = begin + heal
        if possible and until <= history.duration and _left_alone(others, begin, until):
            text = f"{heal:g} s after the {when} of the {fault.text()}"
            for group in groups:
                yield from _whole(group, calm, views, until - heal / 4, until, text)


def _left_alone(others: list[Fault], begin: float, until: float) -> bool:
    return not any(f.at <= until and begin <= f.end for f in others)


def _whole(
    group: set[int], calm: Calm, views: Views, since: float, until: float, when: str
) -> Iterator[Violation]:
    """At some moment the group is one overlay with symmetric views."""
    apart: Sequence[set[int]] = ()
    asymmetric: set[tuple[int, int]] = set()
    connected = symmetric = False
    time = since
    while time <= until and not (connected and symmetric):
        up = [host for host in sorted(group) if calm.up(host, time)]
        links = {(host, other) for host in up for other in views.at(host, time) if other in up}
        asymmetric = {link for link in links if link[::-1] not in links}
        apart = components(up, links - asymmetric)
        connected = connected or len(apart) <= 1
        symmetric = symmetric or not asymmetric
        time += _STEP
    if not connected:
        parts = ", ".join(map(str, map(sorted, apart)))
        yield Violation("connected", until, f"the overlay is in parts {when}: {parts}")
    if not symmetric:
        pairs = ", ".join(f"{one} but not {other}" for other, one in sorted(asymmetric))
        yield Violation("symmetric", until, f"views are not symmetric {when}: {pairs}")
