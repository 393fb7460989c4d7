"""The helper that every test with real hosts stands on."""

from __future__ import annotations

import pytest
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub

from tests.hosts import running_nodes

pytestmark = pytest.mark.hosts


def flood() -> FloodSub:
    return FloodSub([PROTOCOL_ID])


async def die() -> None:
    raise LookupError("as a bug would")


async def test_a_node_that_dies_of_an_error_fails_the_test() -> None:
    async def a_test() -> None:
        async with running_nodes(2, router=flood) as (a, _):
            a.pubsub.manager.run_task(die)
            await a.stopped.wait()

    with pytest.raises(ExceptionGroup, match="1 of 2 nodes died"):
        await a_test()


async def test_a_failed_assertion_reaches_pytest_as_itself() -> None:
    async def a_test() -> None:
        async with running_nodes(1, router=flood):
            raise AssertionError("no")

    with pytest.raises(AssertionError, match="no"):
        await a_test()


async def test_a_death_that_the_test_waits_for_is_no_failure() -> None:
    async with running_nodes(1, router=flood) as (a,):
        a.pubsub.manager.run_task(die)
        assert "LookupError" in repr(await a.crashed())
