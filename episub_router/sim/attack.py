"""A searching attacker: which knobs of a scenario's adversary harm its honest members most.

Half of the runs have random knobs; the others change the worst that was found so far, some at a
time ((1+λ) evolution strategy: Rechenberg 1973). The same seed finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from episub_router.sim.adversaries.cast import ROUTERS
from episub_router.sim.hashing import generator
from episub_router.sim.runner import Job, sweep
from episub_router.sim.scenario.loading import build
from episub_router.sim.strict import ScenarioError

_RANGES: dict[str, tuple[float, float]] = {
    "withheld": (0.0, 1.0),
    "delay": (0.0, 2.0),
    "cost": (0.0, 1.0),
    "hops": (1, 8),
    "rtt": (0.0, 1.0),
    "copies": (1, 4),
    "relink": (4.0, 60.0),
    "invents": (1, 64),
    "prefixes": (1, 16),
}
"""The knobs, from which value to which; whole numbers where both are."""
_CHANGED_AT_ONCE = 4
"""Changes of the worst that are tried before the next are made."""
_LOST_LIKE_P99 = 0.01
"""Share of deliveries whose loss harms as much as a p99 that is once more as long."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run: the adversary's table, and what it did to the last phase."""

    adversary: dict[str, Any]
    p99: float
    """Seconds."""
    lost: float
    """Share of the deliveries."""
    harm: float
    """p99 in that of a run without adversaries, and one more for each per cent lost."""


class AttackSearch:
    """Looks for the worst that the adversary of the scenario in `table` can do; what isn't a knob,
    such as the hostile nodes' share, stays. Raises ScenarioError where there is no adversary."""

    def __init__(self, table: Mapping[str, Any], seed: int, processes: int = 1) -> None:
        scenario = build(table)
        if len(scenario.adversaries) != 1:
            raise ScenarioError("an attack is searched for one table of adversaries")
        (adversary,) = table["adversaries"]
        self._fixed = {key: adversary[key] for key in adversary if key not in (*_RANGES, "kind")}
        self._kinds = [kind.kind for kind in ROUTERS[scenario.router.kind]]
        self._table, self._seed, self._processes = table, seed, processes
        self._rng = generator(seed, "search")
        self.patience = scenario.traffic.settle
        (self.none,) = self.run([{}])

    def with_adversary(self, adversary: Mapping[str, Any]) -> dict[str, Any]:
        """The scenario's table with another adversary; {} is none."""
        return {**self._table, "adversaries": [dict(adversary)] if adversary else []}

    def attempts(self, runs: int) -> Iterator[Attempt]:
        """All `runs`, in the order in which they were tried."""
        worst = self.none
        for attempt in self.run([self._random() for _ in range((runs + 1) // 2)]):
            worst = max(worst, attempt, key=lambda each: each.harm)
            yield attempt
        for left in range(runs // 2, 0, -_CHANGED_AT_ONCE):
            tried = [self._changed(worst.adversary) for _ in range(min(left, _CHANGED_AT_ONCE))]
            for attempt in self.run(tried):
                worst = max(worst, attempt, key=lambda each: each.harm)
                yield attempt

    def run(self, adversaries: list[dict[str, Any]]) -> Iterator[Attempt]:
        """Run the scenario with each of `adversaries`, in their order."""
        jobs = [Job("", build(self.with_adversary(each)), self._seed) for each in adversaries]
        for adversary, (_, result) in zip(adversaries, sweep(jobs, self._processes), strict=True):
            phase = result.summary["phases"][-1]
            if not phase["messages"]:
                raise ScenarioError(f"no message in the last phase, {phase['name']!r}")
            p99 = phase.get("latency", {}).get("p99", self.patience)
            lost = 1 - phase["reliability"]
            base = self.none.p99 if adversary else p99
            yield Attempt(adversary, p99, lost, p99 / base + lost / _LOST_LIKE_P99)

    def _random(self) -> dict[str, Any]:
        """An adversary of any kind; half of its knobs are as honest members have them."""
        rng = self._rng
        knobs = {name: _between(rng, *span) for name, span in _RANGES.items() if rng.random() < 0.5}
        return {"kind": rng.choice(self._kinds), **self._fixed, **knobs}

    def _changed(self, adversary: dict[str, Any]) -> dict[str, Any]:
        """`adversary` with a quarter of its knobs as another one has them, and a quarter moved."""
        rng, other, changed = self._rng, self._random(), dict(adversary)
        while changed == adversary:
            for name in ("kind", *_RANGES):
                draw = rng.random()
                if draw < 0.25:
                    changed.pop(name, None)
                    changed |= {name: other[name]} if name in other else {}
                elif draw < 0.5 and name in _RANGES and name in changed:
                    changed[name] = _beside(rng, changed[name], *_RANGES[name])
        return changed


def _between(rng: Random, low: float, high: float) -> float:
    if isinstance(low, int):
        return rng.randint(low, int(high))
    return round(rng.uniform(low, high), 2)


def _beside(rng: Random, value: float, low: float, high: float) -> float:
    moved = min(max(value + rng.gauss(0.0, 0.1) * (high - low), low), high)
    return round(moved) if isinstance(low, int) else round(moved, 2)
