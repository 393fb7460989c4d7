"""`episub_router.open`: a topic of a node that it starts, or of one that runs."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from libp2p.pubsub.pb.rpc_pb2 import Message

import episub_router
from episub_router import (
    EpisubRouter,
    Joined,
    Lagged,
    NeighborDown,
    NodeStopped,
    TopicHandle,
)
from episub_router.host import EpisubHost, running
from episub_router.protocol.effects import DownReason
from tests.hosts import PATIENCE, free_port

pytestmark = pytest.mark.hosts


async def data_of(handle: TopicHandle) -> bytes:
    with trio.fail_after(PATIENCE):
        item = await anext(handle)
    assert isinstance(item, Message)
    return item.data


async def test_two_nodes_of_a_topic() -> None:
    async with (
        episub_router.open("news") as one,
        episub_router.open("news", bootstrap=one.addresses) as two,
    ):
        events = two.events()
        for handle in (one, two):
            await handle.joined(PATIENCE)
        assert two.neighbors == (one.pubsub.my_id,)
        assert isinstance([await anext(events) for _ in range(2)][1], Joined)
        await one.publish(b"hello")
        await one.publish_nowait(b"again")
        assert [await data_of(two), await data_of(two)] == [b"hello", b"again"]
    assert [item async for item in two if isinstance(item, Lagged)] == []


async def test_another_topic_of_a_node() -> None:
    async with episub_router.open("news") as news:
        async with episub_router.open("sport", pubsub=news.pubsub) as sport:
            await sport.publish(b"goal")
            assert await data_of(sport) == b"goal"
            with pytest.raises(ValueError, match="'news' is subscribed already"):
                async with episub_router.open("news", pubsub=news.pubsub):
                    pass
        assert set(news.pubsub.topic_ids) == {"news"}


async def test_what_is_published_last_arrives() -> None:
    async with episub_router.open("news") as one:
        async with episub_router.open("news", bootstrap=one.addresses) as two:
            await two.joined(PATIENCE)
            for number in range(50):
                await two.publish(bytes([number]))
        assert [await data_of(one) for _ in range(50)] == [bytes([n]) for n in range(50)]


@pytest.mark.parametrize("fails", [False, True])
async def test_neighbours_are_told_of_a_node_that_leaves(fails: bool) -> None:
    """Without a goodbye they would dial it again and again."""
    async with episub_router.open("news") as one:
        events = one.events()
        with suppress(KeyError):
            async with episub_router.open("news", bootstrap=one.addresses) as two:
                await two.joined(PATIENCE)
                await one.joined(PATIENCE)
                if fails:
                    raise KeyError
        with trio.fail_after(PATIENCE):
            down = await anext(event async for event in events if isinstance(event, NeighborDown))
        assert down.reason is DownReason.LEFT


async def test_a_port_for_metrics_that_is_taken() -> None:
    port = free_port()
    async with episub_router.open("news", metrics=port):
        with pytest.raises(OSError, match=f"can't serve metrics on port {port}: Address already"):
            async with episub_router.open("news", metrics=port):
                pass


async def test_an_error_of_the_body_comes_out_as_itself() -> None:
    with pytest.raises(KeyError) as caught:
        async with episub_router.open("news"):
            raise KeyError("mine")
    assert caught.value.args == ("mine",)
    group = ExceptionGroup("two", [KeyError(1), KeyError(2)])
    with pytest.raises(ExceptionGroup) as caught_group:
        async with episub_router.open("news"):
            raise group
    assert caught_group.value is group


async def test_cancelling_the_body_is_no_error() -> None:
    with trio.move_on_after(0.5) as scope:
        async with episub_router.open("news") as handle:
            await anext(handle)
    assert scope.cancelled_caught


async def test_a_node_that_dies_ends_the_body() -> None:
    node = EpisubHost(EpisubRouter())

    async def broken() -> None:
        raise RuntimeError("broken")

    with pytest.raises(NodeStopped, match=r"the node stopped: .*broken"):  # noqa: PT012
        async with running(node):
            node.pubsub.manager.run_task(broken)
            await trio.sleep_forever()


async def test_a_port_that_is_taken() -> None:
    async with episub_router.open("news") as one:
        taken = str(one.addresses[0]).partition("/p2p/")[0]
        with pytest.raises(OSError, match="can't listen on"):
            async with episub_router.open("news", listen=[taken]):
                pass


async def test_the_addresses_that_others_are_given() -> None:
    async with episub_router.open("news", announce=["/ip4/192.0.2.1/tcp/4001"]) as handle:
        assert [str(a).partition("/p2p/")[0] for a in handle.addresses] == [
            "/ip4/192.0.2.1/tcp/4001"
        ]
