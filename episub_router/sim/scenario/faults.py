"""Settings of what goes wrong in a scenario, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from episub_router.sim.strict import ScenarioError, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashFault:
    """A share of the live nodes stops at once. Fixed sources are spared, in all faults."""

    kind: ClassVar[str] = "crash"
    at: float = setting(least=0)
    share: float = setting(above=0, most=0.99)
    target: Literal["random", "best-connected"] = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveFault:
    """A share of the live nodes leaves politely."""

    kind: ClassVar[str] = "leave"
    at: float = setting(least=0)
    share: float = setting(above=0, most=0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlapFault:
    """A share of the nodes crashes and comes back after `down` seconds, `times` times, with
    `up` seconds in between."""

    kind: ClassVar[str] = "flap"
    at: float = setting(least=0)
    share: float = setting(above=0, most=0.99)
    down: float = setting(5.0, above=0)
    up: float = setting(10.0, above=0)
    times: int = setting(1, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnFault:
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
class PartitionFault:
    """A share of the nodes is cut off from the rest for some seconds."""

    kind: ClassVar[str] = "partition"
    at: float = setting(least=0)
    seconds: float = setting(30.0, above=0)
    share: float = setting(0.5, above=0, most=0.99)


Fault: TypeAlias = CrashFault | LeaveFault | FlapFault | ChurnFault | PartitionFault
