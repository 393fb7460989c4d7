"""How long a message takes from one node to another: three models of a network.

A model gives the one-way delay in seconds between two nodes; it is symmetric, fixed for the
run, and follows from (seed, pair) alone, whatever the order of the calls.
"""

from __future__ import annotations

import math
from typing import Protocol

from episub_router.sim.hashing import unit, unit_of_pair


class LatencyModel(Protocol):
    """What the network asks: the one-way delay between two nodes, in s, and where one is."""

    def delay(self, a: int, b: int) -> float: ...

    def place(self, node: int) -> str | None:
        """What the region is called that `node` is in, if there are any."""
        ...


class UniformPairs:
    """Each pair has its own delay, uniform in [low, high] s.

    With [0.010, 0.150] this is the network of the published gossipsub simulator (G01).
    """

    def __init__(self, seed: int, low: float, high: float) -> None:
        self._seed = seed
        self._low = low
        self._span = high - low

    def delay(self, a: int, b: int) -> float:
        return self._low + self._span * unit_of_pair(self._seed, a, b)

    def place(self, node: int) -> str | None:
        return None


class Plane:
    """Nodes on the unit square: delay = base + per_unit * Euclidean distance.

    With `sites` > 0 the nodes live in that many places, each a disc of radius `site_radius`.
    """

    def __init__(
        self, seed: int, base: float, per_unit: float, sites: int = 0, site_radius: float = 0.02
    ) -> None:
        self._seed = seed
        self._base = base
        self._per_unit = per_unit
        self._sites = sites
        self._radius = site_radius

    def position(self, node: int) -> tuple[float, float]:
        """Where `node` is, as (x, y)."""
        u, v = unit(self._seed, 1, node), unit(self._seed, 2, node)
        if not self._sites:
            return u, v
        site = self._site(node)
        # The square root makes the density even over the disc.
        distance, angle = self._radius * math.sqrt(u), 2 * math.pi * v
        return (
            unit(self._seed, 4, site) + distance * math.cos(angle),
            unit(self._seed, 5, site) + distance * math.sin(angle),
        )

    def delay(self, a: int, b: int) -> float:
        return self._base + self._per_unit * math.dist(self.position(a), self.position(b))

    def place(self, node: int) -> str | None:
        return f"site {self._site(node)}" if self._sites else None

    def _site(self, node: int) -> int:
        return int(unit(self._seed, 3, node) * self._sites)


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


class Regions:
    """Nodes in eight regions: the matrix's delay, times a factor of its own for each pair.

    The factor is uniform in [1 - spread, 1 + spread]; the source has one delay for all pairs
    of two regions, which would make arrivals coincide.
    """

    def __init__(self, seed: int, spread: float) -> None:
        self._seed = seed
        self._spread = spread

    def region(self, node: int) -> int:
        """The index of the region that `node` is in."""
        drawn = unit(self._seed, 1, node) * sum(REGION_SHARES)
        for index, share in enumerate(REGION_SHARES):
            drawn -= share
            if drawn < 0:
                return index
        return len(REGION_SHARES) - 1

    def delay(self, a: int, b: int) -> float:
        between = _DELAYS_MS[self.region(a)][self.region(b)] / 1000
        return between * (1 + self._spread * (2 * unit_of_pair(self._seed, a, b) - 1))

    def place(self, node: int) -> str | None:
        return REGIONS[self.region(node)]
