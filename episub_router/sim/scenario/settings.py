"""What a run is made of: the settings of a scenario, with units, defaults and sources.

A scenario is a TOML file with these tables; `docs/simulator.md` is the cookbook. Times are
seconds of virtual time since the start of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from episub_router.sim.adversaries.cast import check
from episub_router.sim.adversaries.settings import AnyAttack
from episub_router.sim.network.latency import Latency, UniformLatency
from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.routers.settings import EpisubConfig, GossipsubConfig, RouterConfig
from episub_router.sim.scenario.faults import ChurnFault, Fault
from episub_router.sim.scenario.traffic import PREFACE_LEAD, TrafficConfig
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
    synthetic: bool = False
    """All are in an overlay from the start, without joining (`sim.synthetic`): `over` is for none.
    Episub alone, and hosts that all can be dialled."""
    looked_at: int = setting(14, least=1)
    """Random nodes of which each near link of a synthetic overlay goes to the nearest. Measured: 14
    is what joined ones come to in a minute with uniform latencies."""


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
    adversaries: tuple[AnyAttack, ...] = ()
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        starts = [phase.start for phase in self.phases]
        if starts != sorted(starts):
            raise ScenarioError(f"phases must be in order of their start: {starts}")
        names = [phase.name for phase in self.phases]
        if len(set(names)) != len(names):
            raise ScenarioError(f"phases must have different names: {names}")
        check(self.router.kind, self.adversaries)
        if self.join.synthetic and (
            self.network.nat_share or not isinstance(self.router, EpisubConfig)
        ):
            raise ScenarioError("join.synthetic is for Episub, without nat_share")
        if self.adversaries and isinstance(self.router, GossipsubConfig) and self.router.is_large:
            raise ScenarioError("adversaries know nothing of preamble and fragment_size")
        if self.adversaries and not self.traffic.fixed:
            raise ScenarioError(
                f"adversaries need honest, fixed sources, not {self.traffic.source!r}"
            )

    @property
    def end(self) -> float:
        """When the run ends."""
        return self.traffic.last + self.traffic.settle

    @property
    def quiet_until(self) -> float:
        """When the first message, fault or phase comes: until then nodes join, and no more. 0 with
        adversaries, which are there from the start."""
        if self.adversaries:
            return 0.0
        traffic = self.traffic
        first = traffic.start - PREFACE_LEAD if traffic.preface else traffic.start
        return min(first, *(of.start for of in self.measured), *(of.at for of in self.faults))

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
