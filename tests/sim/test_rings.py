"""Rings in simulated overlays with members that take all links that they can get."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.protocol.hyparview import Places
from episub_router.sim.results.summary import summarize
from episub_router.sim.routers.episub import TOPIC_NAME
from episub_router.sim.simulation import Simulation
from tests.sim.simulated import scenario_of, simulated, simulation_of

pytestmark = pytest.mark.sim


def ran(variant: str, rings: int, seconds: float = 15.0) -> Simulation:
    settings: dict[str, Any] = {
        "network.nodes": 60,
        "traffic.messages": 30,
        "traffic.interval": seconds / 30,
        "router.params.membership.rings": rings,
    }
    return simulated(scenario_of("hostile", settings, variant))


def hostile_share(simulation: Simulation) -> float:
    """Of the links of honest nodes."""
    looked = simulation.watch.looks[-1]
    return 1 - looked.honest_links / looked.links


@pytest.mark.parametrize("variant", ["episub, cold boot", "episub, JOIN capture, 20 %"])
def test_members_that_take_links_get_no_more_than_their_share_of_the_rings(variant: str) -> None:
    """A fifth is hostile from the start: of four ring links of a node hardly ever all. Three
    searches, within two minutes, find the last of those."""
    simulation = ran(variant, rings=2, seconds=90.0)
    summary = summarize(simulation)
    assert all(phase["reliability"] == 1 for phase in summary["phases"])
    assert not any(look.eclipsed for look in simulation.watch.looks if look.time > 30)
    nodes = simulation.network.nodes
    places = Places(TOPIC_NAME, 2)
    for node in nodes.values():
        if node.id not in simulation.cast:
            assert set(places.next_to(node.id, nodes)) <= set(node.neighbors())


def test_without_rings_they_get_nearly_all() -> None:
    """What the test above would see, did rings do nothing."""
    assert hostile_share(ran("episub, cold boot", rings=0)) > 0.9
    assert hostile_share(ran("episub, cold boot", rings=2)) < 0.7


def test_nobody_is_cut_off_by_a_fifth_of_random_contacts() -> None:
    """Where three of the sixteen contacts are asked at once, and not eight, two are here: none of
    the three named the peers next to them."""
    variant = "episub, sixteen random contacts, cold boot"
    simulation = simulation_of(scenario_of("hostile", {"network.nodes": 150}, variant), seed=2)
    simulation.watch.start()
    simulation.warm_up(40.0)
    assert simulation.watch.looks[-1].nodes == 120
    assert not simulation.watch.looks[-1].eclipsed
