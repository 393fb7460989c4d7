"""Near links stay where it is near, and payloads cross between sites a few times only."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from episub_router import EpisubParams, MembershipParams
from tests.router.overlays import TOPIC, reading, router
from tests.router.sites import ACROSS, INSIDE, in_time, sites_of

pytestmark = pytest.mark.hosts

PARAMS = MembershipParams(active_size=4, random_links=2, near_links=2, passive_size=24)
"""For 15 hosts: as many links as in a site of five leave a choice."""


@pytest.fixture
def clock(mock_clock: MockClock) -> MockClock:
    # Time jumps once all tasks have waited this many real seconds: sockets need some.
    mock_clock.autojump_threshold = 0.001
    return mock_clock


async def test_near_links_end_up_inside_the_site(clock: MockClock) -> None:
    async with sites_of(5, EpisubParams(membership=PARAMS)) as (sites, subscriptions):
        await in_time(
            lambda: (
                sites.near_inside(PARAMS.near_links) >= 0.8 and sites.kept_for_nearness() >= 0.8
            ),
            300,
        )
        rtts = {
            round(neighbor.rtt, 3)
            for node in sites.nodes
            for neighbor in router(node).overlay(TOPIC).active
            if neighbor.rtt is not None
        }
        assert rtts == {INSIDE, ACROSS}
        async with reading(subscriptions) as readers:
            for number in range(20):
                await sites.nodes[0].pubsub.publish(TOPIC, b"%d" % number)
                await readers.each_has(number + 1)
            before = sites.crossings
            for number in range(20, 30):
                await sites.nodes[0].pubsub.publish(TOPIC, b"%d" % number)
                await readers.each_has(number + 1)
            # A tree needs two; hosts that are reached sooner across than inside add some.
            assert (sites.crossings - before) / 10 <= 8
