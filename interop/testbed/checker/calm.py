"""When hosts and pairs of hosts were free of faults."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from interop.testbed.faults import SEPARATING, SILENCING, STARVING, Fault, FaultKind
from interop.testbed.history.records import History, Lived

_OWN = SILENCING | STARVING
"""Kinds that excuse a host; a wrong clock, a full disk and a slow link don't."""
_DEAD = ("kill", "death", "leave")


class Calm:
    """Answers for one history. A fault counts until `heal` seconds after its end, and a process
    that died until as long after the next one was ready."""

    def __init__(self, history: History, heal: float) -> None:
        self._hosts = history.hosts
        self._heal = heal
        self._separations = [fault for fault in history.faults if fault.kind in SEPARATING]
        self._down = [_down(history, host) for host in range(history.hosts)]

    def host(self, host: int, since: float, until: float) -> bool:
        """Whether `host` was up and left alone all that time."""
        return not any(
            begin <= until and since <= end + self._heal for begin, end in self._down[host]
        )

    def up(self, host: int, time: float) -> bool:
        """Whether the process of `host` ran at `time`."""
        return not any(begin <= time <= end for begin, end in self._down[host])

    def pair(
        self, one: int, other: int, since: float, until: float, but: Fault | None = None
    ) -> bool:
        """Whether no fault (`but` this one) kept the two apart in all that time."""
        return not any(
            fault is not but
            and fault.at <= until
            and since <= fault.end + self._heal
            and self._separates(fault, one, other)
            for fault in self._separations
        )

    def apart(self, one: int, other: int, time: float) -> bool:
        """Whether a fault kept the two apart at `time`."""
        return any(
            fault.at <= time <= fault.end and self._separates(fault, one, other)
            for fault in self._separations
        )

    def separates(self, fault: Fault, one: int, other: int) -> bool:
        """Whether `fault` is one that keeps these two apart, in either direction."""
        return fault.kind in SEPARATING and self._separates(fault, one, other)

    def _separates(self, fault: Fault, one: int, other: int) -> bool:
        there = fault.far_side(self._hosts)
        return (one in fault.hosts and other in there) or (other in fault.hosts and one in there)


def _down(history: History, host: int) -> Sequence[tuple[float, float]]:
    """When the process of `host` didn't run, or was kept from what it needs, and its moves."""
    found = [
        (fault.at, fault.end)
        for fault in history.faults
        if fault.kind in _OWN and host in fault.hosts
    ]
    found += [
        (time, time)
        for fault in history.faults
        if fault.kind == FaultKind.MOVE and host in fault.hosts
        for time in (fault.at, fault.end)
    ]
    since: float | None = None
    lives = (e for e in history.events if isinstance(e, Lived) and e.host == host)
    for life in lives:
        if life.state in _DEAD and since is None:
            since = life.time
        elif life.state == "ready" and since is not None:
            found.append((since, life.time))
            since = None
    if since is not None:
        found.append((since, max(since, history.duration)))
    return found


def components(hosts: Sequence[int], links: set[tuple[int, int]]) -> list[set[int]]:
    """The parts that hang together; `links` count in either direction."""
    leader = {host: host for host in hosts}

    def find(host: int) -> int:
        while leader[host] != host:
            host = leader[host]
        return host

    for one, other in links:
        if one in leader and other in leader:
            leader[find(one)] = find(other)
    ordered = sorted(hosts, key=find)
    return [set(group) for _, group in groupby(ordered, key=find)]
