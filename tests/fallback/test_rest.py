"""The gossipsub side of a node does nothing while it has neither peers nor messages."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from episub_router.fallback.cache import HISTORY
from episub_router.fallback.contained import ContainedGossipSub
from tests.fallback.test_containment import ME, TOPIC, Lab, message


async def rests(router: ContainedGossipSub) -> bool:
    """Whether there is nothing for a heartbeat to do."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.wait_for_work)
        await wait_all_tasks_blocked()
        waits = bool(nursery.child_tasks)
        nursery.cancel_scope.cancel()
    return waits


async def test_heartbeats_end_without_peers_and_go_on_while_a_message_may_be_asked_for() -> None:
    """They cost as much as all else of an idle host."""
    lab = Lab("contained")
    router = lab.router
    assert isinstance(router, ContainedGossipSub)
    await router.join(TOPIC)
    assert await rests(router)
    await router.publish(ME, message(1))
    for _ in range(HISTORY):
        assert not await rests(router)
        await router.beat()
    assert not router.mcache.msgs
    assert await rests(router)
    (peer,) = lab.add(1)
    for _ in range(HISTORY):
        await router.beat()
    assert not await rests(router)
    router.remove_peer(peer)
    assert await rests(router)


async def test_a_peer_brings_heartbeats_back() -> None:
    lab = Lab("contained")
    assert isinstance(lab.router, ContainedGossipSub)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lab.router.wait_for_work)
        await wait_all_tasks_blocked()
        lab.add(1)
