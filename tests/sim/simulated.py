"""Scenarios for tests, most of them of the package at reduced size, and runs of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.simulation import Simulation


def scenario_of(source: str, settings: Mapping[str, Any] | None = None, only: str = "") -> Scenario:
    """The scenario of a name, or of the text of a file, with `settings`; of its variants `only`, or
    the one whose name has it in it."""
    file = loading.parse(source) if "\n" in source else loading.load(source)
    made = file.scenarios(settings, [only])
    (scenario,) = [made[only]] if only in made else made.values()
    return scenario


def earlier(name: str, seconds: float) -> dict[str, float]:
    """Settings of a scenario with which all that follows the joins comes so much earlier."""
    table = loading.load(name).table
    times = {"traffic.start": table["traffic"]["start"]}
    for part, keys in (("phases", ["start"]), ("faults", ["at", "until"])):
        for number, entry in enumerate(table.get(part, ())):
            times |= {f"{part}.{number}.{key}": entry[key] for key in keys if key in entry}
    return {key: time - seconds for key, time in times.items()}


def simulation_of(scenario: Scenario, seed: int = 1) -> Simulation:
    """A simulation that hasn't begun."""
    return Simulation(scenario, seed, Records(scenario.capacity))


def simulated(scenario: Scenario, seed: int = 1) -> Simulation:
    """A simulation that is over."""
    simulation = simulation_of(scenario, seed)
    simulation.run()
    return simulation
