"""The run of `episub demo`: real hosts in one process, joined through one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.crypto.ed25519 import create_new_key_pair

from episub_router import MembershipParams
from episub_router.cli.arguments import CommandError
from episub_router.cli.demo.recording import Recorder, RecordingRouter, Trace, duplicates, payload
from episub_router.cli.progress import ShowProgress
from episub_router.host import EpisubHost
from episub_router.net.counters import Reason
from episub_router.trace.tracer import Tracer, TracerStats

TOPIC = "demo"

_PACE = 1.0
"""Seconds after which the next message follows although the last is still on its way."""
_MAX_UNFINISHED = 8
"""Messages on their way at once: a machine that can't keep up shall not build up a backlog."""
_JOINING = 4
"""Hosts that join at once: a host in a process of its own would get more of the machine."""
_SETTLED = 1.0
"""Seconds without a change after which the overlay is at rest."""
_SETTLING = 5.0
"""Seconds after which it has rested enough."""
_QUIET = 0.25
"""Seconds without a copy after which none is under way: all hosts are in one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """What to run; the units are hosts, messages, bytes and seconds."""

    hosts: int
    messages: int
    size: int
    sources: int
    victims: int
    """Hosts that crash after half of the messages."""
    seed: int
    trace: Path | None = None
    """The directory for the hosts' traces."""
    patience: float
    """Give up when nothing has happened for this long."""

    @property
    def wanted_neighbors(self) -> int:
        """With how many neighbours at each host the overlay counts as formed."""
        return min(MembershipParams().random_links, self.hosts - 1)

    @property
    def killed_after(self) -> int:
        """The message after which the victims crash."""
        return (self.messages + 1) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """What was seen. Hosts are numbers; host 0 is the contact of all others."""

    config: DemoConfig
    killed: tuple[int, ...]
    live: tuple[int, ...]
    traces: tuple[Trace, ...]
    active: tuple[int, ...]
    """Sizes of the live hosts' active views at the end."""
    passive: tuple[int, ...]
    errors: int
    """Exceptions that the live hosts' routers caught."""
    failures: Mapping[int, Exception]
    """What hosts died of that were to live."""
    joining: float
    """Seconds from the first subscription until the overlay had formed."""
    broadcasting: float
    """Seconds from the first message until the last delivery."""
    untraced: Mapping[int, str] = field(default_factory=dict)
    """What is missing in the traces of hosts."""


async def run_demo(config: DemoConfig, progress: ShowProgress) -> DemoOutcome:
    """Start hosts, join them, broadcast, crash some, and wait for the last delivery.

    Raises CommandError, in a group, if the hosts can't start or find no overlay.
    """
    demo = _Demo(config, progress)
    if config.trace is not None:
        _check_empty(config.trace)
    async with trio.open_nursery() as nursery:
        try:
            outcome = await demo.run(nursery)
        finally:
            for host in demo.hosts:
                host.crash()  # all are to be gone at once, and goodbyes take time
            nursery.cancel_scope.cancel()
            demo.end_traces()
    return replace(outcome, untraced=demo.untraced())


def _check_empty(directory: Path) -> None:
    """Raise CommandError if there is something in `directory`: two runs in one are no run."""
    try:
        taken = directory.exists() and any(directory.iterdir())
    except OSError as error:
        raise CommandError(f"--trace: {error}") from error
    if taken:
        raise CommandError(f"--trace: {directory} has files in it already; name a new directory")


class _Demo:
    def __init__(self, config: DemoConfig, progress: ShowProgress) -> None:
        self.hosts: list[EpisubHost] = []
        self._config = config
        self._progress = progress
        self._rng = Random(config.seed)
        self._changed = trio.Event()
        everyone = range(config.hosts)
        self._sources = self._rng.sample(everyone, config.sources)
        others = [number for number in everyone if number not in self._sources]
        self._killed = sorted(self._rng.sample(others, config.victims))
        self._live = [number for number in everyone if number not in self._killed]
        self._recorder = Recorder(self._live, self._change)
        self._filler = self._rng.randbytes(config.size)

    async def run(self, nursery: trio.Nursery) -> DemoOutcome:
        await self._start_hosts(nursery)
        began = trio.current_time()
        await self._join(nursery)
        joined = trio.current_time()
        self._progress("Settling", 0, 1, "links still come and go")
        with trio.move_on_after(_SETTLING):
            await self._quiet(_SETTLED)
        self._progress("Settling", 1, 1, "")
        started = trio.current_time()
        await self._broadcast()
        await self._last_deliveries()
        arrived = [at for trace in self._recorder.traces for at in trace.arrivals.values()]
        running = [h for h in (self.hosts[n] for n in self._live) if not h.stopped.is_set()]
        overlays = [host.router.overlay(TOPIC) for host in running]
        return DemoOutcome(
            config=self._config,
            killed=tuple(self._killed),
            live=tuple(self._live),
            traces=tuple(self._recorder.traces),
            active=tuple(len(overlay.active) for overlay in overlays),
            passive=tuple(len(overlay.passive) for overlay in overlays),
            errors=sum(overlay.counters.get(Reason.ERROR.value, 0) for overlay in overlays),
            failures={n: h.failure for n, h in enumerate(self.hosts) if h.failure},
            joining=joined - began,
            broadcasting=max(arrived, default=started) - started,
        )

    async def _start_hosts(self, nursery: trio.Nursery) -> None:
        contact: list[str] = []
        for number in range(self._config.hosts):
            self._progress("Starting hosts", number + 1, self._config.hosts, "")
            seed = self._rng.getrandbits(64)
            router = RecordingRouter(number, self._recorder, contact, seed, self._tracer(number))
            host = EpisubHost(router, key_pair=create_new_key_pair(self._rng.randbytes(32)))
            self._recorder.numbers[host.id] = number
            self.hosts.append(host)
            try:
                await nursery.start(host.run)
            except OSError as error:
                raise CommandError(f"host {number} could not start: {error}") from error
            contact = contact or [str(address) for address in host.addresses]

    def _tracer(self, number: int) -> Tracer | None:
        directory = self._config.trace
        if directory is None:
            return None
        width = len(str(self._config.hosts - 1))
        name = f"host-{number:0{width}}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return Tracer(directory / f"{name}.pb", run=directory.name, name=name)
        except OSError as error:
            raise CommandError(f"--trace: {error}") from error

    def _note_end(self, host: EpisubHost, state: str) -> None:
        if host.pubsub.trace is not None:
            host.pubsub.trace.lived(state)

    def end_traces(self) -> None:
        """Nothing more is to be traced."""
        for number, host in enumerate(self.hosts):
            if host.router.tracer is not None:
                if number not in self._killed:
                    self._note_end(host, "leave")
                host.router.tracer.close()

    def untraced(self) -> dict[int, str]:
        """What is missing in the traces of hosts, once those have ended."""
        missing = {}
        for number, host in enumerate(self.hosts):
            stats = host.router.tracer.stats if host.router.tracer else TracerStats()
            if stats.dropped or stats.failed or stats.error:
                reason = stats.error or "the queue was full"
                missing[number] = f"{stats.dropped + stats.failed} events: {reason}"
        return missing

    async def _join(self, nursery: trio.Nursery) -> None:
        wanted, total = self._config.wanted_neighbors, self._config.hosts

        def joined(enough: int) -> int:
            meshes = [host.router.mesh.get(TOPIC, ()) for host in self.hosts]
            self._progress(
                "Joining the overlay",
                sum(len(mesh) >= wanted for mesh in meshes),
                total,
                f"hosts with {wanted} neighbours",
            )
            return sum(len(mesh) >= enough for mesh in meshes)

        for number, host in enumerate(self.hosts, 1):
            subscription = await host.pubsub.subscribe(TOPIC)
            nursery.start_soon(self._read, number - 1, subscription)
            nursery.start_soon(self._watch_mesh, host)
            await self._reach(partial(joined, 1), number - _JOINING)
        if not await self._reach(partial(joined, wanted), total):
            raise CommandError(
                f"only {joined(wanted)} of {total} hosts found {wanted} neighbours, with no "
                f"progress for {self._config.patience:g} s"
            )

    async def _broadcast(self) -> None:
        messages = self._config.messages
        for count in range(1, messages + 1):
            source = self._sources[count % len(self._sources)]
            number = self._recorder.published(source)
            await self.hosts[source].pubsub.publish(TOPIC, payload(number, self._filler))
            if count == self._config.killed_after:
                for victim in self._killed:
                    self._note_end(self.hosts[victim], "crash")
                    self.hosts[victim].crash()
            self._progress("Broadcasting", count, messages, self._remark())
            with trio.move_on_after(_PACE):
                await self._reach(self._finished, count)
            await self._reach(self._finished, count - _MAX_UNFINISHED)

    async def _last_deliveries(self) -> None:
        total = self._config.messages

        def finished() -> int:
            self._progress("Last deliveries", self._finished(), total, self._remark())
            return self._finished()

        await self._reach(finished, total)
        await self._quiet(_QUIET)

    def _remark(self) -> str:
        return f"{duplicates(self._recorder.traces[-11:-1]):.2f} duplicates per delivery"

    def _finished(self) -> int:
        return self._recorder.finished

    async def _reach(self, measure: Callable[[], int], goal: int) -> bool:
        """Wait until `measure()` is at `goal`; False if it didn't grow for too long."""
        best, deadline = -1, inf
        while (value := measure()) < goal:
            if value > best:
                best, deadline = value, trio.current_time() + self._config.patience
            with trio.move_on_at(deadline) as scope:
                await self._changed.wait()
            if scope.cancelled_caught:
                return measure() >= goal
        return True

    async def _quiet(self, seconds: float) -> None:
        """Wait until nothing has happened for so long."""
        quiet = False
        while not quiet:
            with trio.move_on_after(seconds) as scope:
                await self._changed.wait()
            quiet = scope.cancelled_caught

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _read(self, number: int, subscription: ISubscriptionAPI) -> None:
        while True:
            self._recorder.delivered(number, (await subscription.get()).data)

    async def _watch_mesh(self, host: EpisubHost) -> None:
        while True:
            await host.router.mesh_changed()
            self._change()
