"""Estimating the overlay's size, and sizes that follow it (E01)."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.sizing import Sizing
from episub_router.protocol.params import EpisubParams, MembershipParams
from tests.protocol.network import Network

DYNAMIC = MembershipParams(dynamic_sizing=True)


def sizing(params: MembershipParams = DYNAMIC) -> tuple[OverlayState, Sizing]:
    overlay = OverlayState(0, params, Random(1))
    return overlay, Sizing(overlay)


@pytest.mark.parametrize("nodes", [10, 100, 1_000, 10_000])
def test_estimate_of_independent_ids(nodes: int) -> None:
    """E01: collisions among a thousand random ids tell N to within a third."""
    _, counter = sizing()
    rng = Random(nodes)
    counter.saw(rng.randrange(nodes) for _ in range(5_000))
    assert counter.estimate == pytest.approx(nodes, rel=0.34)


def test_no_estimate_from_few_ids() -> None:
    _, counter = sizing()
    counter.saw(range(500))
    assert counter.estimate is None


def test_old_ids_are_forgotten() -> None:
    """The window is bounded, and the estimate is that of the ids in it alone."""
    _, counter = sizing()
    counter.saw(id % 10 for id in range(1_000))
    counter.saw(id % 250 for id in range(1_000))
    assert counter.estimate == pytest.approx(333, rel=0.01)
    assert len(counter._samples) == sum(counter._counts.values()) == DYNAMIC.size_window


def test_sizes_follow_within_bounds() -> None:
    """E01: C_rand = log10(N), A and P with it; small steps change nothing."""
    overlay, counter = sizing()
    for id in range(42):
        overlay.passive.add(id + 1, overlay.rng)
    counter.saw(Random(1).randrange(100) for _ in range(1_000))
    counter.fire(60.0)
    assert overlay.params.random_links == DYNAMIC.least_random == 3
    assert overlay.params.active_size == 6
    assert overlay.params.passive_size == overlay.passive.size == len(overlay.passive) == 36
    counter.saw(Random(1).randrange(3_000) for _ in range(1_000))
    counter.fire(120.0)
    assert overlay.params.random_links == 3


def test_nodes_estimate_their_overlay() -> None:
    """E01: from passing shuffles, nodes of a small overlay know its size well."""
    network = Network(100, EpisubParams(membership=DYNAMIC), seed=1)
    network.join_all()
    network.run(600)
    found = [network.topics[node].membership.estimated_size for node in network.live]
    assert median(size for size in found if size is not None) == pytest.approx(100, rel=0.1)
    assert all(len(network.neighbors(node)) <= 7 for node in network.live)
    assert network.components() == 1
