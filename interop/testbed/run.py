"""One run of a scenario: starts the hosts, publishes, does the faults, keeps the history."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from random import Random

import trio

from interop.testbed.faults import Fault, FaultKind
from interop.testbed.history.records import (
    Accepted,
    Delivered,
    History,
    Lived,
    Log,
    Neighbors,
    Parted,
    Refused,
    Usage,
)
from interop.testbed.lab.damage import DISK, Damage, faketime
from interop.testbed.lab.host import Host
from interop.testbed.lab.linux import mount_tmpfs
from interop.testbed.lab.network import Network, address
from interop.testbed.lab.software import Messages, Place, Said, finds_others, peer_id, software
from interop.testbed.scenario import Scenario

_PORT = 4001
_CONTACTS = 3
"""Hosts that a host is given to join through: any of them may be down."""
_LINKS = 8
"""Connections that a host of gossipsub makes; gossipsub: its mesh has 4 to 12."""
_SAMPLE = 1.0
"""Seconds between two looks at what the processes hold."""
_REDIAL = 5.0
"""Seconds between two dials of a peer that has fallen out of the mesh, where the testbed has to."""
_AT_ONCE = 6
"""Processes that start at a time."""
_LOGS = 30.0
"""Seconds that the logs may take in the end."""

Say = Callable[[str], None]
"""Takes a line of progress."""


class NotJoined(Exception):
    """The hosts did not become one overlay."""


class Run:
    """Runs `scenario` with files in `out`. Over loopback if `isolated` is not set: then faults
    that need a network of our own are left out, with a line."""

    def __init__(self, scenario: Scenario, out: Path, *, isolated: bool, say: Say) -> None:
        self._scenario = scenario
        self._say = say
        self._messages = Messages()
        self._network = Network(scenario.hosts) if isolated else None
        self._peers = {peer_id(host): host for host in range(scenario.hosts)}
        self._views: dict[int, set[int]] = {}
        self._asked: dict[str, tuple[float, int]] = {}
        self._begin = time.monotonic()
        self._news = trio.Event()
        homes = [out / f"host-{host}" for host in range(scenario.hosts)]
        self._hosts = [self._host(host, home) for host, home in enumerate(homes)]
        self._damage = Damage(self._hosts, homes, self._network, self._note, self._restart)
        self._nursery: trio.Nursery | None = None
        self._over = False
        self.history = History(
            scenario.name, scenario.kinds, scenario.duration, time.time(), tuple(self._peers)
        )

    async def run(self) -> History:
        """Run it to its end, or until it is cancelled; no process is left either way.

        Raises NotJoined.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._start()
                await self._join()
                self._restart_clock()
                self._say(f"{len(self._hosts)} hosts are one overlay; the faults begin")
                async with trio.open_nursery() as inner:
                    inner.start_soon(self._publish)
                    inner.start_soon(self._sample)
                    inner.start_soon(self._redial)
                    for fault in self._scenario.faults:
                        inner.start_soon(self._do, fault)
                    await trio.sleep(self._scenario.duration)
                    inner.cancel_scope.cancel()
                await self._ask_for_logs()
                self._over = True
                async with trio.open_nursery() as leaving:
                    for host in self._hosts:
                        self._note(host, "leave")
                        leaving.start_soon(host.leave)
        finally:
            self._over = True
            self._kill()
        self.history.asked = self._asked
        return self.history

    # Hosts

    def _host(self, number: int, home: Path) -> Host:
        scenario, network = self._scenario, self._network
        home.mkdir(parents=True)
        kinds = {fault.kind for fault in scenario.faults if number in fault.hosts}
        extra: dict[str, str] = {}
        if FaultKind.DISK in kinds and network is not None:
            mount_tmpfs(str(home), DISK)
        if FaultKind.CLOCK in kinds:
            extra = faketime(home)
        place = Place(
            host=number,
            listen=self._address(number)
            if FaultKind.MOVE not in kinds
            else f"/ip4/0.0.0.0/tcp/{_PORT}",
            peers=[f"{self._address(host)}/p2p/{peer_id(host)}" for host in self._contacts(number)],
            home=home,
            trace=scenario.traces or FaultKind.DISK in kinds,
        )
        program = software(scenario.kinds[number])
        enter = network.enter(number) if network is not None else None
        return Host(
            place,
            program,
            self._messages,
            enter,
            lambda session, said: self._heard(number, session, said),
            extra,
        )

    def _contacts(self, host: int) -> Sequence[int]:
        """The hosts through which `host` joins, or, where none finds others by itself, to which it
        is connected."""
        earlier = range(host)
        if finds_others(self._scenario.kinds[host]):
            return earlier[:_CONTACTS]
        chosen = Random(f"{self._scenario.seed}/{host}").sample(earlier, min(_LINKS, host))
        return sorted(chosen)

    def _address(self, host: int) -> str:
        ip = address(host) if self._network is not None else f"127.77.0.{host + 1}"
        return f"/ip4/{ip}/tcp/{_PORT}"

    async def _start(self) -> None:
        """The first host first: the others join through it."""
        limit = trio.CapacityLimiter(_AT_ONCE)

        async def start(host: Host) -> None:
            async with limit:
                self._restart(host)
                await host.ready.wait()

        with trio.move_on_after(self._scenario.joining) as scope:
            await start(self._hosts[0])
            async with trio.open_nursery() as nursery:
                for host in self._hosts[1:]:
                    nursery.start_soon(start, host)
        if scope.cancelled_caught:
            late = [host.number for host in self._hosts if not host.ready.is_set()]
            raise NotJoined(f"hosts {late} did not start within {self._scenario.joining:g} s")

    def _restart(self, host: Host) -> None:
        if self._over:
            return
        assert self._nursery is not None
        self._nursery.start_soon(self._live, host)

    async def _live(self, host: Host) -> None:
        number, session = host.number, host.session + 1
        self._views[number] = set()
        self._lived(number, session, "start")
        status = await host.live()
        self._views[number] = set()
        self.history.events.append(Neighbors(self._now(), number, session, frozenset()))
        if not self._over and not self._was_killed(number, session):
            self._lived(number, session, "death")
            self._say(f"host {number} ended by itself, with status {status}")

    def _was_killed(self, number: int, session: int) -> bool:
        return any(
            isinstance(event, Lived)
            and (event.host, event.session) == (number, session)
            and event.state in ("kill", "leave")
            for event in reversed(self.history.events)
        )

    def _kill(self) -> None:
        for host in self._hosts:
            if host.alive:
                host.signal(signal.SIGKILL)

    # What is received

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _restart_clock(self) -> None:
        """Times count from here."""
        shift = self._now()
        self._begin += shift
        self.history.began = time.time()
        self.history.events = [
            Neighbors(0.0, host, 0, frozenset(view)) for host, view in self._views.items()
        ]
        self._lived_from_the_start()

    def _lived_from_the_start(self) -> None:
        for host in self._hosts:
            self.history.events.append(Lived(0.0, host.number, host.session, "ready"))

    def _lived(self, host: int, session: int, state: str) -> None:
        self.history.events.append(Lived(self._now(), host, session, state))

    def _note(self, host: Host, state: str) -> None:
        self._lived(host.number, host.session, state)

    def _heard(self, host: int, session: int, said: Said) -> None:
        now, events = self._now(), self.history.events
        if said.published is not None:
            asked = self._asked.get(said.published, (now, host))[0]
            events.append(Accepted(now, host, session, said.published, asked, said.after))
        elif said.delivered is not None:
            events.append(Delivered(now, host, session, said.delivered, said.missing))
        elif said.log is not None:
            self.history.logs.append(Log(host, said.log))
        elif said.listening:
            self._lived(host, session, "ready")
        elif said.failed is not None:
            self._say(f"host {host} could not publish: {said.failed}")
            if said.refused:
                events.append(Refused(now, host, session, said.refused, said.failed))
        elif self._look(host, said):
            if said.parted is not None:
                other = self._peers[said.parted]
                events.append(Parted(now, host, session, other, said.reason))
            events.append(Neighbors(now, host, session, frozenset(self._views[host])))
        self._news.set()

    def _look(self, host: int, said: Said) -> bool:
        """Whether the neighbours of `host` have changed."""
        before = set(self._views[host])
        if said.joined in self._peers:
            self._views[host].add(self._peers[said.joined])
        elif said.parted in self._peers:
            self._views[host].discard(self._peers[said.parted])
        elif said.neighbors is not None:
            known = {self._peers[peer] for peer in said.neighbors if peer in self._peers}
            self._views[host] = known
        return self._views[host] != before

    async def _join(self) -> None:
        with trio.move_on_after(self._scenario.joining):
            while not self._is_one_overlay():
                self._news = trio.Event()
                await self._news.wait()
            return
        raise NotJoined(
            f"no overlay of all hosts within {self._scenario.joining:g} s: {self._views}"
        )

    def _is_one_overlay(self) -> bool:
        reached, new = {0}, [0]
        while new:
            host = new.pop()
            near = {other for other in self._views[host] if host in self._views.get(other, ())}
            new += near - reached
            reached |= near
        return len(reached) == len(self._hosts)

    # What is done

    async def _publish(self) -> None:
        traffic = self._scenario.traffic
        if traffic.rate <= 0:
            return
        publishers = cycle(traffic.publishers or range(len(self._hosts)))
        count, begin = 0, trio.current_time()
        while True:
            await trio.sleep_until(begin + count / traffic.rate)
            if self._now() > self._scenario.calm_after:
                return
            host = self._hosts[next(publishers)]
            count += 1
            if host.alive and not host.paused and host.ready.is_set():
                message = f"m{host.number}-{count}"
                self._asked[message] = (self._now(), host.number)
                size = traffic.sizes[count % len(traffic.sizes)]
                host.publish(self._messages.payload(message, size))

    async def _do(self, fault: Fault) -> None:
        await trio.sleep(fault.at)
        if not self._damage.possible(fault):
            self._say(f"left out, since there are no namespaces: {fault.text()}")
            return
        self._say(f"{self._now():6.1f} s: {fault.text()}")
        begin = self._now()
        await self._damage.inflict(fault)
        self.history.faults.append(_as_done(fault, begin, self._now()))

    async def _sample(self) -> None:
        while True:
            for host in self._hosts:
                found = host.usage()
                if found is not None:
                    self.history.usage.append(
                        Usage(
                            self._now(),
                            host.number,
                            host.session,
                            found.memory,
                            found.descriptors,
                            found.threads,
                            found.cpu,
                        )
                    )
            await trio.sleep(_SAMPLE)

    async def _redial(self) -> None:
        """Gossipsub meshes only those that are connected."""
        while True:
            await trio.sleep(_REDIAL)
            for host in self._hosts:
                for other in self._contacts(host.number):
                    if other not in self._views[host.number]:
                        host.dial(f"{self._address(other)}/p2p/{peer_id(other)}")

    async def _ask_for_logs(self) -> None:
        asked = sum(host.ask_for_log() for host in self._hosts if host.alive)
        with trio.move_on_after(_LOGS):
            while len(self.history.logs) < asked:
                self._news = trio.Event()
                await self._news.wait()


def _as_done(fault: Fault, begin: float, end: float) -> Fault:
    return Fault(
        kind=fault.kind,
        at=begin,
        lasts=end - begin,
        hosts=fault.hosts,
        others=fault.others,
        amount=fault.amount,
    )
