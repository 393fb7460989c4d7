"""Faults of one host that overlap."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import MockClock

from interop.testbed.faults import Fault, FaultKind
from interop.testbed.lab.damage import Damage


class Victim:
    """As much of a host as faults of its process and its link need."""

    number = 0

    def __init__(self) -> None:
        self.alive = True
        self.starts: list[float] = []

    def signal(self, number: int) -> None:
        self.alive = False

    def start(self, host: Any) -> None:
        assert not self.alive, "two processes on one host"
        self.alive = True
        self.starts.append(trio.current_time())


class Link:
    def slow(self, host: int, rate: float) -> None:
        pass

    def full_speed(self, host: int) -> None:
        pass


async def test_a_killed_host_stays_down_when_its_slow_link_ends_before(
    autojump_clock: MockClock,
) -> None:
    victim: Any = Victim()
    link: Any = Link()
    damage = Damage([victim], [], link, lambda host, state: None, victim.start)
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        for kind, lasts in ((FaultKind.KILL, 3.0), (FaultKind.SLOW, 2.0)):
            fault = Fault(kind=kind, at=0.0, lasts=lasts, hosts=(0,))
            nursery.start_soon(damage.inflict, fault)
    assert victim.starts == [begin + 3.0]
