"""What a run is made of: the settings of a scenario, with units, defaults and sources.

A scenario is a TOML file with these tables; `docs/simulator.md` is the cookbook. Times are
seconds of virtual time since the start of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from episub_router.sim.network.settings import Latency, NetworkConfig, UniformLatency
from episub_router.sim.routers.settings import EpisubConfig, RouterConfig
from episub_router.sim.scenario.faults import ChurnFault, Fault
from episub_router.sim.strict import ScenarioError, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinConfig:
    """How the nodes come in: evenly over `over` seconds, each knowing `contacts` others.

    With via = "first" all nodes know the first nodes; with "random", random ones among all
    that join with it or before it. gossipsub and floodsub dial `connect` random nodes.
    """

    over: float = setting(0.0, least=0)
    contacts: int = setting(3, least=1, most=64)
    via: Literal["random", "first"] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficConfig:
    """Which nodes publish what, and when.

    source = "one": the first node; "few": `sources` fixed nodes in turn; "random": a random
    live node each time; "all": every live node in turn; "outside": a publisher outside of the
    network sends each message to `fanout` random nodes (the published simulator's driver).
    """

    source: Literal["one", "few", "random", "all", "outside"] = "one"
    sources: int = setting(5, least=1)
    pool: int = setting(0, least=0)
    """With "random": draw from this many fixed nodes instead of from all; 0 is all."""
    fanout: int = setting(5, least=1)
    messages: int = setting(10, least=1, most=1_000_000)
    start: float = setting(5.0, least=0)
    interval: float = setting(1.0, above=0)
    size: int = setting(1024, least=0)
    """Payload bytes."""
    settle: float = setting(10.0, above=0)
    """Seconds after the last message until the run ends, and that each message is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Messages published from `start` on, until the next phase, are measured together."""

    name: str
    start: float = setting(least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A run of the same scenario with some settings, given by dotted keys, changed."""

    name: str
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a run depends on, beside the seed."""

    name: str
    about: str = ""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    latency: Latency = field(default_factory=UniformLatency)
    router: RouterConfig = field(default_factory=EpisubConfig)
    join: JoinConfig = field(default_factory=JoinConfig)
    traffic: TrafficConfig = field(default_factory=TrafficConfig)
    faults: tuple[Fault, ...] = ()
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        starts = [phase.start for phase in self.phases]
        if starts != sorted(starts):
            raise ScenarioError(f"phases must be in order of their start: {starts}")
        names = [phase.name for phase in self.phases]
        if len(set(names)) != len(names):
            raise ScenarioError(f"phases must have different names: {names}")

    @property
    def end(self) -> float:
        """When the run ends."""
        traffic = self.traffic
        return traffic.start + (traffic.messages - 1) * traffic.interval + traffic.settle

    @property
    def measured(self) -> tuple[Phase, ...]:
        """The phases that the run reaches; one for all messages where there are none."""
        reached = tuple(phase for phase in self.phases if phase.start < self.end)
        return reached or (Phase(name="all", start=self.traffic.start),)

    @property
    def capacity(self) -> int:
        """Node ids that the run may come to use: the nodes, and those that churn brings."""
        newcomers = sum(
            int((fault.until - fault.at) * fault.rate * self.network.nodes) + 2
            for fault in self.faults
            if isinstance(fault, ChurnFault)
        )
        return self.network.nodes + newcomers
