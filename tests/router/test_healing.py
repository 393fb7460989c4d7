"""What heals by itself in time: real hosts in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from episub_router.net.connections.kernel import socket_below
from episub_router.net.counters import Reason
from episub_router.protocol.effects import DownReason, NeighborDown
from tests.hosts import Node
from tests.router.overlays import TOPIC, count, joined, overlay_of, parts, reading, router

pytestmark = pytest.mark.hosts


@pytest.fixture
def clock(mock_clock: MockClock) -> MockClock:
    # Time jumps once all tasks have waited this many real seconds: sockets need some.
    mock_clock.autojump_threshold = 0.01
    return mock_clock


@asynccontextmanager
async def silenced(node: Node) -> AsyncIterator[None]:
    """Kill `node`: what its tasks write as they are cancelled goes nowhere, and its sockets stay
    open."""

    async def lost(data: bytes) -> None:
        pass

    with ExitStack() as kept:
        for connection in node.host.get_network().get_connections():
            muxed: Any = connection.muxed_conn
            muxed.secured_conn.write = lost
            socket = socket_below(muxed)
            assert socket is not None
            kept.enter_context(socket.dup())
        await node.kill()
        yield


async def gone(dead: Node, others: list[Node]) -> None:
    """Wait until none of `others` has a link with `dead`."""
    while any(dead.id in router(node).mesh[TOPIC] for node in others):  # noqa: ASYNC110
        await trio.sleep(1)


async def test_a_link_that_one_side_forgot_becomes_two_sided_again(clock: MockClock) -> None:
    async with overlay_of(3) as (nodes, subscriptions):
        forgetful, other = nodes[0], nodes[1]
        machine = parts(forgetful).topics.machine(TOPIC)
        assert machine is not None
        peer = other.id.to_bytes()
        machine.membership.active.remove(peer)
        machine.broadcast.handle(NeighborDown(peer, DownReason.LEFT), trio.current_time())
        router(forgetful).mesh[TOPIC].discard(other.id)
        assert forgetful.id in router(other).mesh[TOPIC]
        await joined(nodes)
        async with reading(subscriptions) as readers:
            await other.pubsub.publish(TOPIC, b"both ways")
            await readers.all_have([b"both ways"])


async def test_an_idle_overlay_stays_as_it_is(clock: MockClock) -> None:
    """No link is lost to silence, no connection to the idle timer."""
    async with overlay_of(5) as (nodes, subscriptions):
        before = [set(router(node).mesh[TOPIC]) for node in nodes]
        await trio.sleep(150)
        assert [set(router(node).mesh[TOPIC]) for node in nodes] == before
        async with reading(subscriptions) as readers:
            await nodes[4].pubsub.publish(TOPIC, b"still there")
            await readers.all_have([b"still there"])


async def test_a_peer_that_falls_silent_is_dropped(clock: MockClock) -> None:
    """As when its machine is gone without a word: the connection still looks alive."""
    async with overlay_of(3) as (nodes, _):
        dead = nodes[2]
        # Three checks of silence and the one that finds it, each 30 s give or take a fifth.
        async with silenced(dead):
            with trio.fail_after(180):
                await gone(dead, nodes[:2])


async def test_a_host_that_only_publishes_notices_a_neighbour_that_stops(clock: MockClock) -> None:
    """E15: nobody announces anything to it, and the neighbour's kernel acknowledges all that it is
    sent. With a message a second, it is noticed within ten."""
    async with overlay_of(3) as (nodes, _):
        publisher, dead = nodes[0], nodes[2]
        await trio.sleep(200)  # Upkeep has come to rest: queries would notice it only later.
        await publisher.pubsub.publish(TOPIC, b"a tree of its own")
        async with silenced(dead):
            with trio.fail_after(10):
                while dead.id in router(publisher).mesh[TOPIC]:
                    await publisher.pubsub.publish(TOPIC, b"%f" % trio.current_time())
                    await trio.sleep(1)


async def test_a_neighbour_that_stops_at_rest_is_noticed_without_queries(clock: MockClock) -> None:
    """E15: nothing is sent, and no query is due for minutes; nor does its Yamux answer."""
    async with overlay_of(3) as (nodes, _):
        dead = nodes[2]
        await trio.sleep(200)
        assert not count(nodes, Reason.PEER_SILENT)
        async with silenced(dead):
            with trio.fail_after(75):
                await gone(dead, nodes[:2])
        assert count(nodes[:2], Reason.PEER_SILENT)
