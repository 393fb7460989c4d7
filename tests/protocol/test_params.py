"""Parameters: defaults, sizes by formula, contradictions (E01)."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.protocol.params import BroadcastParams, EpisubParams, MembershipParams


def test_defaults_are_the_specification_s_starting_values_and_a_near_link() -> None:
    """E01: N = 10,000, C_rand = 4, and C_near = 4 in place of 3; A = C_rand + C_near, P = 6·A."""
    params = MembershipParams()
    assert (params.random_links, params.near_links, params.ring_links) == (4, 4, 4)
    assert (params.active_size, params.passive_size) == (8, 48)
    assert MembershipParams.for_size(10_000) == params


@pytest.mark.parametrize(
    ("nodes", "chosen", "random", "active", "passive"),
    [
        (10_000, {"near": 3}, 4, 7, 42),
        (100, {"near": 3}, 2, 5, 30),
        (2, {"near": 3}, 1, 4, 24),
        (10**6, {"near": 3}, 6, 9, 54),
        (10_000, {"near": 0}, 4, 5, 30),
        (1_000, {"near": 0}, 3, 4, 24),
        (10_000, {"near": 0, "c": 2, "k": 3}, 4, 6, 18),
    ],
)
def test_sizes_follow_the_formulas(
    nodes: int, chosen: dict[str, int], random: int, active: int, passive: int
) -> None:
    """E01: C_rand = log(N), P = k·A; A = C_rand + C_near, or HyParView's log(N) + c."""
    params = MembershipParams.for_size(nodes, **chosen)
    assert params.random_links == random
    assert params.active_size == active
    assert params.passive_size == passive


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [
        (MembershipParams, {"active_size": 6}, "active_size"),
        (MembershipParams, {"join_ttl": -1}, "join_ttl"),
        (MembershipParams, {"shuffle_interval": float("inf")}, "shuffle_interval"),
        (MembershipParams, {"rtt_advantage": float("nan")}, "rtt_advantage"),
        (BroadcastParams, {"cache_messages": 0}, "cache_messages"),
        (BroadcastParams, {"lazy_interval": -0.1}, "lazy_interval"),
        (BroadcastParams, {"seen_ttl": 1}, "seen_ttl"),
        (BroadcastParams, {"cache_messages": 100_000}, "cache_messages"),
    ],
)
def test_contradictions_are_refused_by_name(kind: Any, values: dict[str, Any], named: str) -> None:
    """E01: a value that can't work says which it is."""
    with pytest.raises(ValueError, match=named):
        kind(**values)


def test_sizes_need_an_overlay() -> None:
    with pytest.raises(ValueError, match="nodes"):
        MembershipParams.for_size(1)


@pytest.mark.parametrize("values", [{"near_links": 0}, {"rings": 0}, {"join_ttl": 0}])
def test_what_may_be_nothing_may_be_nothing(values: dict[str, Any]) -> None:
    assert MembershipParams(**values)
    assert BroadcastParams(optimization_threshold=None, source_trees=0)


def test_a_topic_of_a_known_size_is_set_in_one_call() -> None:
    """E01: what depends on the size follows it, all else keeps its default."""
    params = EpisubParams.for_size(100, near=2)
    assert params.membership == MembershipParams.for_size(100, near=2)
    assert params.membership.active_size == 4
    assert params.broadcast == BroadcastParams()
    assert EpisubParams.for_size(10_000) == EpisubParams()
