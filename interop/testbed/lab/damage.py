"""Does faults to hosts and their network, and undoes them."""

from __future__ import annotations

import math
import os
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from interop.testbed.faults import NETWORK, Fault, FaultKind
from interop.testbed.lab.host import Host
from interop.testbed.lab.network import Network, Pair

DISK = 16 << 20
"""Bytes of the file system that a victim of a full disk writes to."""
_BALLAST = "ballast"

Note = Callable[[Host, str], None]
"""Called with a host and what was done to its process: kill, stop, continue."""


class Damage:
    """The faults of a run. `network` is None over loopback, `restart` starts a host again."""

    def __init__(
        self,
        hosts: Sequence[Host],
        homes: Sequence[Path],
        network: Network | None,
        note: Note,
        restart: Callable[[Host], None],
    ) -> None:
        self._hosts = hosts
        self._homes = homes
        self._network = network
        self._note = note
        self._restart = restart
        self._killed: set[int] = set()
        """Hosts that are down until the kill's end, whatever other fault of theirs ends before."""

    def possible(self, fault: Fault) -> bool:
        """Whether this fault can be done here."""
        return self._network is not None or fault.kind not in (*NETWORK, FaultKind.DISK)

    async def inflict(self, fault: Fault) -> None:
        """Do `fault`, wait until it is over, and undo it."""
        if fault.kind == FaultKind.FLAP:
            await self._flap(fault)
            return
        if fault.kind in (FaultKind.CUT, FaultKind.ONE_WAY):
            self._lab().block(self._pairs(fault))
        else:
            for victim in fault.hosts:
                self._begin(fault, self._hosts[victim])
        await trio.sleep(fault.lasts)
        if fault.kind in (FaultKind.CUT, FaultKind.ONE_WAY):
            self._lab().unblock(self._pairs(fault))
        else:
            for victim in fault.hosts:
                self._end(fault, self._hosts[victim])

    def _begin(self, fault: Fault, host: Host) -> None:
        match fault.kind:
            case FaultKind.KILL:
                self._note(host, "kill")
                self._killed.add(host.number)
                host.signal(signal.SIGKILL)
            case FaultKind.STOP:
                self._note(host, "stop")
                host.paused = True
                host.signal(signal.SIGSTOP)
            case FaultKind.SLOW:
                self._lab().slow(host.number, fault.amount)
            case FaultKind.MOVE:
                self._lab().move(host.number, away=True)
            case FaultKind.CLOCK:
                set_clock(self._homes[host.number], fault.amount)
            case FaultKind.DISK:
                fill(self._homes[host.number])
            case FaultKind.DESCRIPTORS:
                usage = host.usage()
                if usage is not None:
                    host.limit(resource.RLIMIT_NOFILE, usage.descriptors + fault.amount)
            case FaultKind.MEMORY:
                usage = host.usage()
                if usage is not None:
                    host.limit(resource.RLIMIT_AS, usage.space + fault.amount * 2**20)

    def _end(self, fault: Fault, host: Host) -> None:
        match fault.kind:
            case FaultKind.KILL:
                self._killed.discard(host.number)
            case FaultKind.STOP:
                self._note(host, "continue")
                host.paused = False
                host.signal(signal.SIGCONT)
            case FaultKind.SLOW:
                self._lab().full_speed(host.number)
            case FaultKind.MOVE:
                self._lab().move(host.number, away=False)
            case FaultKind.CLOCK:
                set_clock(self._homes[host.number], 0.0)
            case FaultKind.DISK:
                (self._homes[host.number] / _BALLAST).unlink(missing_ok=True)
            case FaultKind.DESCRIPTORS:
                host.limit(resource.RLIMIT_NOFILE, math.inf)
            case FaultKind.MEMORY:
                host.limit(resource.RLIMIT_AS, math.inf)
        if not host.alive and host.number not in self._killed:
            self._restart(host)

    async def _flap(self, fault: Fault) -> None:
        pairs = self._pairs(fault)
        periods = max(1, int(fault.lasts / fault.amount))
        half = min(fault.amount, fault.lasts) / 2
        for _ in range(periods):
            self._lab().block(pairs)
            await trio.sleep(half)
            self._lab().unblock(pairs)
            await trio.sleep(half)

    def _pairs(self, fault: Fault) -> list[Pair]:
        there = fault.far_side(len(self._hosts))
        out = [(a, b) for a in fault.hosts for b in there]
        return out if fault.kind == FaultKind.ONE_WAY else [*out, *((b, a) for a, b in out)]

    def _lab(self) -> Network:
        if self._network is None:
            raise RuntimeError("there is no network to damage")
        return self._network


def fill(directory: Path) -> None:
    """Leave no room in the file system of `directory`."""
    with (directory / _BALLAST).open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 8, 1):
            try:
                while True:
                    os.write(file.fileno(), b"\0" * size)
            except OSError:
                continue


def set_clock(directory: Path, offset: float) -> None:
    """Have processes under libfaketime that look at `directory` see the wall clock off by so
    many seconds."""
    # Renamed, as they look at any time.
    (directory / "clock.new").write_text(f"{offset:+.0f}\n")
    (directory / "clock.new").rename(directory / "clock")


def faketime(directory: Path) -> dict[str, str]:
    """The environment of a process whose clock `set_clock` sets. Raises FileNotFoundError where
    there is no libfaketime."""
    for library in _LIBRARIES:
        if library.exists():
            set_clock(directory, 0.0)
            return {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(directory / "clock"),
                "FAKETIME_CACHE_DURATION": "1",
                # Timers run on the monotonic clock, which no operator sets.
                "DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
    raise FileNotFoundError("libfaketime is not there (Debian: apt-get install libfaketime)")


_LIBRARIES = [
    *Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/faketime/libfaketimeMT.so.1"),
]
