"""A scenario of Shadow: one of the simulator, and what real nodes need beside it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from episub_router.sim.hashing import generator
from episub_router.sim.network.network import Network
from episub_router.sim.records import Records
from episub_router.sim.routers.settings import EpisubConfig
from episub_router.sim.scenario.faults import CrashFault
from episub_router.sim.scenario.loading import ScenarioFile
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.simulation import Simulation
from episub_router.sim.strict import ScenarioError, read, setting
from interop.shadow.kinds import KINDS

MOST_HOSTS = 1000
"""The graph has an edge for each pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The table `shadow` of a scenario."""

    kinds: tuple[str, ...] = ("episub",)
    """What runs on the hosts, in turn."""
    connections: int = setting(20, least=1)
    """Connections that each host has from its start, to random others."""
    validation: float = setting(0.0, least=0)
    """Seconds that validating a message takes."""
    separate: bool = False
    """Whether large messages (`traffic.large_every`) have a topic of their own."""
    skip: int = setting(0, least=0)
    """First messages that the figures leave out."""

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise ScenarioError(f"shadow.kinds: {kind!r}; there are {', '.join(KINDS)}")
        if not self.kinds:
            raise ScenarioError("shadow.kinds names none")


@dataclass(frozen=True, slots=True)
class Publishing:
    """One message, whose number is its place among all."""

    time: float
    host: int
    size: int
    large: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: the same hosts, latencies, sources and times as in the simulator."""

    scenario: Scenario
    nodes: Nodes
    seed: int
    network: Network[Any]
    publishings: tuple[Publishing, ...]
    killed: Mapping[int, float]
    """When a host is killed, by its number."""

    @property
    def hosts(self) -> int:
        return self.scenario.network.nodes

    @property
    def measured(self) -> tuple[int, ...]:
        """The numbers of the messages that the figures are of."""
        return tuple(range(self.nodes.skip, len(self.publishings)))

    def kind(self, host: int) -> str:
        return self.nodes.kinds[host % len(self.nodes.kinds)]

    def mbit(self, host: int) -> float:
        """Megabit per second that a host can send, and receive."""
        return self.network.uplink_of(host) or UNLIMITED

    def up(self, host: int, time: float) -> bool:
        return time < self.killed.get(host, float("inf"))

    def shortest(self, message: Publishing, host: int) -> float:
        """Seconds that a message takes to a host with nothing between it and the publisher."""
        rate = min(self.mbit(message.host), self.mbit(host)) * 125e3
        return self.network.delay(message.host, host) + message.size / rate

    @property
    def piece_threshold(self) -> int:
        """Bytes from which on Episub sends messages in pieces; 0 where none is so large."""
        router = self.scenario.router
        if not isinstance(router, EpisubConfig):
            return 0
        threshold = router.params.broadcast.piece_threshold
        return threshold if any(m.size >= threshold for m in self.publishings) else 0


UNLIMITED = 10_000.0
"""Megabit per second, where the scenario sets no limit."""


def load(
    path: Path,
    *,
    seed: int = 1,
    kinds: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of the scenario in the file at `path`; `kinds` take the place of its own.

    Raises OSError, and ScenarioError for what can't be run.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from error
    return parse(table, seed=seed, kinds=kinds, settings=settings)


def parse(
    table: Mapping[str, Any],
    *,
    seed: int = 1,
    kinds: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a table as docs/shadow.md describes it. Raises ScenarioError."""
    table = dict(table)
    own = {k: v for k, v in (settings or {}).items() if k.startswith("shadow.")}
    rest = {k: v for k, v in (settings or {}).items() if k not in own}
    given = {**table.pop("shadow", {}), **{k.removeprefix("shadow."): v for k, v in own.items()}}
    nodes = read(Nodes, given, "shadow")
    if kinds:
        nodes = replace(nodes, kinds=kinds)
    [scenario] = ScenarioFile(table, ()).scenarios(rest).values()
    _check(scenario)
    simulation = Simulation(scenario, seed, Records(scenario.capacity))
    return Plan(
        scenario=scenario,
        nodes=nodes,
        seed=seed,
        network=simulation.network,
        publishings=tuple(_publishings(simulation)),
        killed=_killed(simulation),
    )


def _check(scenario: Scenario) -> None:
    traffic = scenario.traffic
    if scenario.network.nodes > MOST_HOSTS:
        raise ScenarioError(f"network.nodes = {scenario.network.nodes}; at most {MOST_HOSTS}")
    if traffic.source not in ("one", "few", "random") or traffic.preface:
        raise ScenarioError("traffic.source: one, few or random, and no preface")
    if min(traffic.size, traffic.large_size) < 8:
        raise ScenarioError("traffic.size: at least the 8 bytes of a message's number")
    if not all(isinstance(fault, CrashFault) for fault in scenario.faults):
        raise ScenarioError("faults: Shadow's network doesn't change; hosts can crash")
    if scenario.adversaries or scenario.network.nat_share or scenario.network.jitter:
        raise ScenarioError("adversaries, nat_share and jitter aren't for real nodes")


def _publishings(simulation: Simulation) -> list[Publishing]:
    scenario, hosts = simulation.scenario, range(simulation.scenario.network.nodes)
    traffic, sources = scenario.traffic, simulation.sources
    made = []
    for number, (time, turn) in enumerate(traffic.schedule(generator(simulation.seed, "traffic"))):
        # As `Simulation` draws them.
        if traffic.source == "random":
            host = simulation.rng.choice(sources or hosts)
        else:
            host = sources[turn % len(sources)]
        large = traffic.large_every > 0 and number % traffic.large_every == 0
        made.append(Publishing(time, host, traffic.size_of(number), large))
    return made


def _killed(simulation: Simulation) -> dict[int, float]:
    """The hosts that crash: never one that publishes."""
    rng = generator(simulation.seed, "killed")
    hosts = simulation.scenario.network.nodes
    killed: dict[int, float] = {}
    for fault in simulation.scenario.faults:
        assert isinstance(fault, CrashFault)
        left = [h for h in range(hosts) if h not in simulation.sources and h not in killed]
        for host in rng.sample(left, min(len(left), round(fault.share * hosts))):
            killed[host] = fault.at
    return killed
