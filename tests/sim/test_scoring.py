"""Peer scores of gossipsub v1.1, and what a node does with them."""

from __future__ import annotations

import pytest

from episub_router.sim.routers.gossipsub_scored import ScoredGossipsubNode
from episub_router.sim.routers.scoring import PeerScores, ScoreParams
from tests.sim.simulated import scenario_of, simulated

PARAMS = ScoreParams()
TOPIC = PARAMS.topic_weight
ACTIVE = PARAMS.p3_activation + 1


@pytest.fixture
def scores() -> PeerScores:
    return PeerScores(PARAMS)


def test_a_stranger_has_none(scores: PeerScores) -> None:
    assert scores.score(1, 5.0) == 0


def test_time_in_the_mesh_counts_up_to_a_cap(scores: PeerScores) -> None:
    scores = PeerScores(ScoreParams(p1_cap=20.0, p3_activation=1000.0))
    scores.on_graft(1, 0.0)
    assert scores.score(1, 10.0) == pytest.approx(TOPIC * PARAMS.p1_weight * 10)
    assert scores.score(1, 30.0) == pytest.approx(TOPIC * PARAMS.p1_weight * 20)


def test_only_the_first_copy_is_a_first_delivery(scores: PeerScores) -> None:
    scores.on_message(7, 1, 0.0)
    scores.on_message(7, 2, 0.0)
    assert scores.score(1, 0.0) == pytest.approx(TOPIC * PARAMS.p2_weight)
    assert scores.score(2, 0.0) == 0


def test_a_mesh_peer_that_delivers_too_little_pays_for_the_deficit_squared(
    scores: PeerScores,
) -> None:
    scores.on_graft(1, 0.0)
    assert scores.score(1, 10.0) > 0
    deficit = PARAMS.p3_weight * PARAMS.p3_threshold**2
    time = PARAMS.p1_weight * ACTIVE
    assert scores.score(1, ACTIVE) == pytest.approx(TOPIC * (deficit + time))
    for message in range(int(PARAMS.p3_threshold)):
        scores.on_message(message, 2, ACTIVE)
        scores.on_message(message, 1, ACTIVE + PARAMS.p3_window)
        scores.on_message(message, 1, ACTIVE + PARAMS.p3_window)
    assert scores.score(1, ACTIVE) == pytest.approx(TOPIC * time)


def test_copies_after_the_window_and_repeated_ones_do_not_count(scores: PeerScores) -> None:
    scores.on_graft(1, 0.0)
    before = scores.score(1, ACTIVE)
    scores.on_message(1, 2, 0.0)
    scores.on_message(1, 1, 2 * PARAMS.p3_window)
    assert scores.score(1, ACTIVE) == before
    scores.on_message(2, 2, 10.0)
    scores.on_message(2, 1, 10.0)
    after_one = scores.score(1, ACTIVE)
    assert after_one > before
    scores.on_message(2, 1, 10.0)
    assert scores.score(1, ACTIVE) == after_one


def test_a_deficit_at_the_prune_sticks(scores: PeerScores) -> None:
    scores.on_graft(1, 0.0)
    scores.on_prune(1, ACTIVE)
    assert scores.score(1, ACTIVE) == pytest.approx(
        TOPIC * PARAMS.p3b_weight * PARAMS.p3_threshold**2
    )


def test_penalties_above_the_threshold_count_squared_and_decay(scores: PeerScores) -> None:
    scores.penalize(1, int(PARAMS.p7_threshold))
    assert scores.score(1, 0.0) == 0
    scores.penalize(1, 3)
    assert scores.score(1, 0.0) == PARAMS.p7_weight * 9
    for _ in range(10_000):
        scores.decay()
    assert scores.score(1, 0.0) == 0


SCENARIO = """
name = "censors"
[network]
nodes = 30
[router]
kind = "gossipsub"
scoring = true
[traffic]
source = "few"
messages = 80
start = 5.0
interval = 1.0
settle = 5.0
[[adversaries]]
kind = "censor"
"""


@pytest.mark.sim
def test_peers_that_deliver_nothing_leave_the_mesh() -> None:
    simulation = simulated(scenario_of(SCENARIO))
    nodes, cast = simulation.network.nodes, simulation.cast
    scored = [nodes[node] for node in cast.rings[0].honest]
    assert all(isinstance(node, ScoredGossipsubNode) for node in scored)
    hostile = [peer in cast for node in scored for peer in node.neighbors()]
    assert len(hostile) > 4 * len(scored)
    looks = simulation.watch.looks
    before = [look for look in looks if look.time < PARAMS.p3_activation][-1]
    share = 1 - before.honest_links / before.links
    assert sum(hostile) < 0.5 * share * len(hostile)
