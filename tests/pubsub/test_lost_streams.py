"""A pubsub stream dies while its connection lives.

`a` loses its stream to `b`. The stock class then forgets what `b` subscribed to and never
hears of it again, because `b`'s own stream, over which it told, is still whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from libp2p.abc import IPubsubRouter
from libp2p.network.stream.net_stream import NetStream
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.stream_muxer.yamux.yamux import YamuxStream

from episub_router import PubsubDrop, ResilientPubsub
from tests.hosts import Node, connect, connect_all, eventually, receive, running_nodes
from tests.hosts import subscribe_all as subscribe
from tests.pubsub.frames import GARBAGE, TOPIC, flood

pytestmark = pytest.mark.hosts


def gossip() -> GossipSub:
    return GossipSub(["/meshsub/1.1.0"], 6, 4, 12, heartbeat_interval=1)  # type: ignore[list-item]


ROUTERS = pytest.mark.parametrize("router", [flood, gossip])


@asynccontextmanager
async def two_nodes(
    router: Callable[[], IPubsubRouter], class_of_a: type[Pubsub], class_of_b: type[Pubsub]
) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        running_nodes(1, router=router, pubsub_class=class_of_a) as [a],
        running_nodes(1, router=router, pubsub_class=class_of_b, seed=1) as [b],
    ):
        await connect(a, b)
        await subscribe([a, b], TOPIC)
        yield a, b


Loss = Callable[[Any], Awaitable[None]]
LOSSES = pytest.mark.parametrize("loss", [NetStream.reset, NetStream.close], ids=["reset", "close"])


async def lose_stream(a: Node, b: Node, loss: Loss = NetStream.reset) -> None:
    """End `a`'s stream to `b`, have `a` notice by writing, and wait until it has a new one."""
    old = a.pubsub.peers[b.id]
    await loss(old)
    await a.pubsub.publish(TOPIC, b"lost")
    await eventually(lambda: a.pubsub.peers.get(b.id, old) is not old)


async def settle(a: Node, b: Node) -> None:
    """Let all that `a` and `b` have to tell each other because of the new stream arrive.

    First `b` has taken in `a`'s hello, then `a` whatever `b` said because of it.
    """
    await a.pubsub.subscribe("settling")
    await b.pubsub.wait_for_subscription(a.id, "settling")
    await b.pubsub.subscribe("settled")
    await a.pubsub.wait_for_subscription(b.id, "settled")


@LOSSES
@ROUTERS
async def test_stock_partitions(router: Callable[[], IPubsubRouter], loss: Loss) -> None:
    async with two_nodes(router, Pubsub, Pubsub) as (a, b):
        await lose_stream(a, b, loss)
        await settle(a, b)
        assert b.id not in a.pubsub.peer_topics.get(TOPIC, ())


@LOSSES
@ROUTERS
@pytest.mark.parametrize(
    ("class_of_a", "class_of_b"),
    [(ResilientPubsub, Pubsub), (Pubsub, ResilientPubsub), (ResilientPubsub, ResilientPubsub)],
)
async def test_one_resilient_end_mends_it(
    router: Callable[[], IPubsubRouter],
    loss: Loss,
    class_of_a: type[Pubsub],
    class_of_b: type[Pubsub],
) -> None:
    async with two_nodes(router, class_of_a, class_of_b) as (a, b):
        for _ in range(2):
            await lose_stream(a, b, loss)
            await settle(a, b)
            assert b.id in a.pubsub.peer_topics[TOPIC]
        at_a, at_b = (node.pubsub.subscribed_topics_receive[TOPIC] for node in (a, b))
        for sender, subscription in ((a, at_b), (b, at_a)):
            await sender.pubsub.publish(TOPIC, b"after")
            while (await receive(subscription))[0].data != b"after":
                pass


async def test_a_stream_reset_for_garbage_opens_again() -> None:
    async with two_nodes(flood, Pubsub, ResilientPubsub) as (a, b):
        old = a.pubsub.peers[b.id]
        await old.write(GARBAGE)
        assert isinstance(b.pubsub, ResilientPubsub)
        pubsub = b.pubsub
        await eventually(lambda: pubsub.drops == {PubsubDrop.FRAME_MALFORMED: 1})
        assert isinstance(old, NetStream)
        muxed = old.muxed_stream
        assert isinstance(muxed, YamuxStream)
        await eventually(lambda: muxed.reset_received)
        await a.pubsub.publish(TOPIC, b"lost")
        await eventually(lambda: a.pubsub.peers.get(b.id, old) is not old)
        await settle(a, b)
        await a.pubsub.publish(TOPIC, b"after")
        [msg] = await receive(b.pubsub.subscribed_topics_receive[TOPIC])
        assert msg.data == b"after"


async def test_an_unsubscription_is_not_undone_by_a_new_stream() -> None:
    async with two_nodes(flood, ResilientPubsub, ResilientPubsub) as (a, b):
        await b.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: b.id not in a.pubsub.peer_topics.get(TOPIC, ()))
        await b.pubsub.subscribe("u")
        await a.pubsub.wait_for_subscription(b.id, "u")
        old = a.pubsub.peers[b.id]
        await old.reset()
        await a.pubsub.publish("u", b"lost")
        await eventually(lambda: a.pubsub.peers.get(b.id, old) is not old)
        await settle(a, b)
        assert b.id not in a.pubsub.peer_topics.get(TOPIC, ())
        assert b.id in a.pubsub.peer_topics["u"]


async def test_a_peer_that_disconnects_is_forgotten() -> None:
    async with running_nodes(2, router=flood, pubsub_class=ResilientPubsub) as (a, b):
        await connect_all([(a, b)])
        await subscribe([a, b], TOPIC)
        await lose_stream(a, b)
        pubsub = a.pubsub
        assert isinstance(pubsub, ResilientPubsub)
        await b.kill()
        await eventually(lambda: b.id not in pubsub.peers and not pubsub._inbound)
        await eventually(lambda: b.id not in pubsub.peer_topics.get(TOPIC, ()))
        assert pubsub._greeted == set()
        assert pubsub._resuming == {}
