"""The gossipsub side of a node does nothing while it has neither peers nor messages."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from episub_router.fallback.cache import HISTORY
from episub_router.fallback.contained import ContainedGossipSub, NothingToDo
from tests.fallback.test_containment import ME, TOPIC, Lab, message


def router_of(lab: Lab) -> ContainedGossipSub:
    assert isinstance(lab.router, ContainedGossipSub)
    return lab.router


async def test_heartbeats_end_without_peers_and_go_on_while_a_message_may_be_asked_for(
    autojump_clock: MockClock,
) -> None:
    """They cost as much as all else of an idle host."""
    router = router_of(Lab("contained"))
    await router.join(TOPIC)
    with pytest.raises(NothingToDo):
        await router.heartbeat()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.wait_for_work)
        await wait_all_tasks_blocked()
        await router.publish(ME, message(1))
    began = trio.current_time()
    with pytest.raises(NothingToDo):
        await router.heartbeat()
    assert HISTORY - 1 <= trio.current_time() - began <= HISTORY + 1
    assert not router.mcache.msgs


async def test_a_peer_brings_heartbeats_back(autojump_clock: MockClock) -> None:
    lab = Lab("contained")
    router = router_of(lab)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.wait_for_work)
        await wait_all_tasks_blocked()
        (peer,) = lab.add(1)
    with trio.move_on_after(60) as beating:
        await router.heartbeat()
    assert beating.cancelled_caught
    router.remove_peer(peer)
    with pytest.raises(NothingToDo):
        await router.heartbeat()
