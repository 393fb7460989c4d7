"""The latency models: symmetric, within their bounds, the same in any order of asking."""

from __future__ import annotations

import pytest

from episub_router.sim.network.latency import (
    Latency,
    PlaneLatency,
    RegionLatency,
    UniformLatency,
)

PAIRS = [(a, b) for a in range(60) for b in range(a)]


MODELS = [
    UniformLatency(),
    PlaneLatency(),
    PlaneLatency(sites=8),
    RegionLatency(),
]


@pytest.mark.parametrize("model", MODELS)
def test_delay_follows_from_the_pair_alone(model: Latency) -> None:
    delays = {(a, b): model.delay(3, a, b) for a, b in PAIRS}
    assert {(a, b): model.delay(3, b, a) for a, b in reversed(PAIRS)} == delays
    assert min(delays.values()) > 0
    assert len(set(delays.values())) > 0.99 * len(PAIRS)


def test_uniform_pairs_fill_their_interval() -> None:
    delays = [UniformLatency().delay(1, a, b) for a, b in PAIRS]
    assert 0.01 <= min(delays) < 0.012
    assert 0.148 < max(delays) <= 0.15
    assert sum(delays) / len(delays) == pytest.approx(0.08, rel=0.03)


def test_plane_has_the_mean_of_the_published_model() -> None:
    # Mean distance in the unit square is 0.5214: 2 + 100 * 0.5214 = 54.1 ms.
    delays = [PlaneLatency().delay(1, a, b) for a in range(200) for b in range(a)]
    assert sum(delays) / len(delays) == pytest.approx(0.0541, rel=0.03)


def test_sites_are_near_inside_and_far_across() -> None:
    delays = sorted(PlaneLatency(sites=8).delay(5, a, b) for a, b in PAIRS)
    inside = [delay for delay in delays if delay <= 0.002 + 0.1 * 0.04]
    assert 1 / 16 < len(inside) / len(delays) < 1 / 4


def test_regions_are_shared_out_like_the_source_says() -> None:
    model = RegionLatency()
    europe = sum(model.region(2, node) == 0 for node in range(5000)) / 5000
    assert europe == pytest.approx(5599 / 11326, abs=0.03)
    a, b = (next(n for n in range(5000) if model.region(2, n) == region) for region in (0, 1))
    assert 0.8 * 0.070 <= model.delay(2, a, b) <= 1.2 * 0.070


def test_nodes_of_a_site_or_a_region_are_near_each_other() -> None:
    sites, regions = PlaneLatency(sites=8), RegionLatency()
    for a, b in PAIRS:
        together = sites.place(5, a) == sites.place(5, b)
        assert not together or sites.delay(5, a, b) <= 0.002 + 0.1 * 0.04
        together = regions.place(3, a) == regions.place(3, b)
        assert together == (regions.delay(3, a, b) <= 1.2 * 0.007)
    assert {UniformLatency().place(3, 1), PlaneLatency().place(3, 1)} == {None}


def test_another_seed_is_another_network() -> None:
    assert UniformLatency().delay(1, 1, 2) != UniformLatency().delay(2, 1, 2)
