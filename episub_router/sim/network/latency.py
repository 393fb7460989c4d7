"""How long a message takes from one node to another: three models of a network.

A model gives the one-way delay in seconds between two nodes; it is symmetric, fixed for the
run, and follows from (seed, pair) alone, whatever the order of the calls. Its fields are settings
of a scenario.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from episub_router.sim.hashing import unit, unit_of_pair
from episub_router.sim.strict import ScenarioError, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformLatency:
    """Each pair has its own delay, uniform in [low, high] s.

    The defaults are the network of the published gossipsub simulator (G01).
    """

    kind: ClassVar[str] = "uniform"
    low: float = setting(0.010, above=0)
    high: float = setting(0.150, above=0)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ScenarioError(f"latency.low = {self.low}; must be at most high = {self.high}")

    def delay(self, seed: int, a: int, b: int) -> float:
        return self.low + (self.high - self.low) * unit_of_pair(seed, a, b)

    def place(self, seed: int, node: int) -> str | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneLatency:
    """Nodes on the unit square: delay = base + per_unit * Euclidean distance, 54 ms in the mean.

    With `sites` > 0 the nodes live in that many places, each a disc of radius `site_radius`.
    """

    kind: ClassVar[str] = "plane"
    base: float = setting(0.002, above=0)
    per_unit: float = setting(0.100, least=0)
    sites: int = setting(0, least=0)
    site_radius: float = setting(0.02, least=0, most=1)

    def position(self, seed: int, node: int) -> tuple[float, float]:
        """Where `node` is, as (x, y)."""
        u, v = unit(seed, 1, node), unit(seed, 2, node)
        if not self.sites:
            return u, v
        site = self._site(seed, node)
        # The square root makes the density even over the disc.
        distance, angle = self.site_radius * math.sqrt(u), 2 * math.pi * v
        return (
            unit(seed, 4, site) + distance * math.cos(angle),
            unit(seed, 5, site) + distance * math.sin(angle),
        )

    def delay(self, seed: int, a: int, b: int) -> float:
        return self.base + self.per_unit * math.dist(self.position(seed, a), self.position(seed, b))

    def place(self, seed: int, node: int) -> str | None:
        return f"site {self._site(seed, node)}" if self.sites else None

    def _site(self, seed: int, node: int) -> int:
        return int(unit(seed, 3, node) * self.sites)


REGIONS = (
    "europe",
    "na-east",
    "na-west",
    "east-asia",
    "australia",
    "west-asia",
    "south-africa",
    "south-america",
)

REGION_SHARES = (5599, 2894, 1240, 1059, 290, 161, 47, 36)
"""Nodes per region, in the proportions of the Ethereum network.

Source of shares and delays: libp2p/test-plans, gossipsub-interop/network_graph.py, which is
what the gossipsub implementations are compared on.
"""

_DELAYS_MS = (
    (2, 70, 110, 125, 165, 60, 95, 140),
    (70, 2, 60, 140, 150, 110, 130, 100),
    (110, 60, 2, 100, 110, 150, 160, 100),
    (125, 140, 100, 4, 110, 110, 175, 175),
    (165, 150, 110, 110, 2, 180, 220, 190),
    (60, 110, 150, 110, 180, 5, 110, 145),
    (95, 130, 160, 175, 220, 110, 7, 195),
    (140, 100, 100, 175, 190, 145, 195, 7),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionLatency:
    """Nodes in eight regions of the world: the matrix's delay, times a factor of its own for each
    pair.

    The factor is uniform in [1 - spread, 1 + spread]; the source has one delay for all pairs
    of two regions, which would make arrivals coincide.
    """

    kind: ClassVar[str] = "regions"
    spread: float = setting(0.2, least=0, most=0.9)

    def region(self, seed: int, node: int) -> int:
        """The index of the region that `node` is in."""
        drawn = unit(seed, 1, node) * sum(REGION_SHARES)
        for index, share in enumerate(REGION_SHARES):
            drawn -= share
            if drawn < 0:
                return index
        return len(REGION_SHARES) - 1

    def delay(self, seed: int, a: int, b: int) -> float:
        between = _DELAYS_MS[self.region(seed, a)][self.region(seed, b)] / 1000
        return between * (1 + self.spread * (2 * unit_of_pair(seed, a, b) - 1))

    def place(self, seed: int, node: int) -> str | None:
        """What the region is called that `node` is in."""
        return REGIONS[self.region(seed, node)]


Latency: TypeAlias = UniformLatency | PlaneLatency | RegionLatency
