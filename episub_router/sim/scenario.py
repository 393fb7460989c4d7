"""What a run is made of: the settings of a scenario, with units, defaults and sources.

A scenario is a TOML file with these tables; `docs/simulator.md` is the cookbook. Times are
seconds of virtual time since the start of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from episub_router.protocol.params import EpisubParams
from episub_router.sim.routers.floodsub import FloodsubParams
from episub_router.sim.routers.gossipsub import PRESETS
from episub_router.sim.strict import ScenarioError, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformLatency:
    """Each pair has its own one-way delay, uniform in [low, high] seconds (G01)."""

    kind: ClassVar[str] = "uniform"
    low: float = setting(0.010, above=0)
    high: float = setting(0.150, above=0)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ScenarioError(f"latency.low = {self.low}; must be at most high = {self.high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneLatency:
    """Nodes on the unit square; 2 + 100 * distance ms has a mean of 54 ms. With `sites` > 0
    they live in that many discs."""

    kind: ClassVar[str] = "plane"
    base: float = setting(0.002, above=0)
    per_unit: float = setting(0.100, least=0)
    sites: int = setting(0, least=0)
    site_radius: float = setting(0.02, least=0, most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionLatency:
    """Eight regions of the world (`latency.Regions`); pairs differ by ±`spread`."""

    kind: ClassVar[str] = "regions"
    spread: float = setting(0.2, least=0, most=0.9)


Latency: TypeAlias = UniformLatency | PlaneLatency | RegionLatency


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """The hosts and what connects them."""

    nodes: int = setting(1000, least=2, most=1_000_000)
    jitter: float = setting(0.0, least=0, most=10)
    """Share of the delay that is added at random to each message, uniform in [0, jitter]."""
    loss: float = setting(0.0, least=0, most=0.9)
    """Share of the messages that are lost."""
    uplink: float = setting(0.0, least=0)
    """Megabit per second that a host can send; 0 is no limit."""
    dial_round_trips: float = setting(4.0, least=0.5, most=20)
    """Round trips to open a connection: TCP, protocol selection, Noise XX, muxer and stream."""
    dial_timeout: float = setting(5.0, above=0)
    """Seconds until a dial that can't succeed fails; go-libp2p's limit for one dial."""
    crash_notice: float = setting(1.0, least=0)
    """Seconds until the peers of a crashed or cut-off host notice."""
    nat_share: float = setting(0.0, least=0, most=0.95)
    """Share of the hosts that can dial but not be dialled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisubRouter:
    """The core, with its own parameters (`protocol.params`)."""

    kind: ClassVar[str] = "episub"
    params: EpisubParams = field(default_factory=EpisubParams)


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubRouter:
    """The gossipsub model (`routers.gossipsub`): a preset, and what departs from it."""

    kind: ClassVar[str] = "gossipsub"
    preset: Literal["v1.1", "v1.0", "simsub-2018"] = "v1.1"
    params: dict[str, Any] = field(default_factory=dict)

    def merged(self) -> dict[str, Any]:
        """The preset's values with this scenario's on top."""
        return {**PRESETS[self.preset], **self.params}


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodsubRouter:
    """floodsub."""

    kind: ClassVar[str] = "floodsub"
    params: FloodsubParams = field(default_factory=FloodsubParams)


Router: TypeAlias = EpisubRouter | GossipsubRouter | FloodsubRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """How the nodes come in: evenly over `over` seconds, each knowing `contacts` others.

    With via = "first" everybody knows the first nodes; with "random", random ones among all
    that join with it or before it. gossipsub and floodsub dial `connect` random nodes.
    """

    over: float = setting(0.0, least=0)
    contacts: int = setting(3, least=1, most=64)
    via: Literal["random", "first"] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficConfig:
    """Who publishes what, when.

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
class Crash:
    """A share of the live nodes stops at once. Fixed sources are spared, in all faults."""

    kind: ClassVar[str] = "crash"
    at: float = setting(least=0)
    share: float = setting(above=0, most=0.99)
    target: Literal["random", "best-connected"] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """A share of the live nodes leaves politely."""

    kind: ClassVar[str] = "leave"
    at: float = setting(least=0)
    share: float = setting(above=0, most=0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flap:
    """A share of the nodes crashes and comes back after `down` seconds, `times` times, with
    `up` seconds in between."""

    kind: ClassVar[str] = "flap"
    at: float = setting(least=0)
    share: float = setting(above=0, most=0.99)
    down: float = setting(5.0, above=0)
    up: float = setting(10.0, above=0)
    times: int = setting(1, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """From `at` to `until`, `rate` of the nodes per second go and as many new ones come;
    `crash` is the share of those that go without a word."""

    kind: ClassVar[str] = "churn"
    at: float = setting(least=0)
    until: float = setting(above=0)
    rate: float = setting(0.01, above=0, most=1)
    crash: float = setting(0.5, least=0, most=1)

    def __post_init__(self) -> None:
        if self.until <= self.at:
            raise ScenarioError(f"churn.until = {self.until}; must be more than at = {self.at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A share of the nodes is cut off from the rest for some seconds."""

    kind: ClassVar[str] = "partition"
    at: float = setting(least=0)
    seconds: float = setting(30.0, above=0)
    share: float = setting(0.5, above=0, most=0.99)


Fault: TypeAlias = Crash | Leave | Flap | Churn | Partition


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
    router: Router = field(default_factory=EpisubRouter)
    join: Joining = field(default_factory=Joining)
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
            if isinstance(fault, Churn)
        )
        return self.network.nodes + newcomers
