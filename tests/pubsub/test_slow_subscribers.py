"""Subscriptions that nobody reads for a while."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub

from episub_router import Lagged, PubsubDrop, PubsubParams, ResilientPubsub, Subscription
from episub_router.pubsub.subscription import BUFFER_BYTES
from episub_router.util.bounded_channel import BoundedSender
from tests.hosts import PATIENCE, receive, running_nodes
from tests.pubsub.frames import TOPIC, flood

pytestmark = pytest.mark.hosts


@pytest.mark.parametrize(("pubsub_class", "kept"), [(Pubsub, 32), (ResilientPubsub, 100)])
async def test_what_a_reader_finds_of_100_messages(pubsub_class: type[Pubsub], kept: int) -> None:
    async with running_nodes(1, router=flood, pubsub_class=pubsub_class) as (node,):
        subscription = await node.pubsub.subscribe(TOPIC)
        for n in range(100):
            await node.pubsub.publish(TOPIC, bytes([n]))
        received = await receive(subscription, kept)
        assert [msg.data for msg in received] == [bytes([n]) for n in range(kept)]
        await node.pubsub.publish(TOPIC, b"next")
        assert (await receive(subscription))[0].data == b"next"


async def test_a_reader_is_told_where_messages_are_missing() -> None:
    options: dict[str, Any] = {"params": PubsubParams(subscription_buffer=3)}
    async with running_nodes(
        1, router=flood, pubsub_class=ResilientPubsub, pubsub_options=options
    ) as (node,):
        subscription = await node.pubsub.subscribe(TOPIC)
        assert isinstance(subscription, Subscription)

        async def publish(*numbers: int) -> None:
            for number in numbers:
                await node.pubsub.publish(TOPIC, bytes([number]))

        seen: list[object] = []

        async def read(count: int) -> None:
            with trio.fail_after(PATIENCE):
                for _ in range(count):
                    item = await anext(subscription.with_gaps())
                    seen.append(item if isinstance(item, Lagged) else item.data[0])

        await publish(0, 1, 2, 3, 4)
        await read(1)
        await publish(5, 6)
        await read(5)
        assert seen == [0, 1, 2, Lagged(2), 5, Lagged(1)]
        await publish(7, 8, 9, 10, 11)
        assert [m.data[0] for m in await receive(subscription, 3)] == [7, 8, 9]
        await publish(12)
        seen.clear()
        await read(2)
        assert seen == [Lagged(2), 12]
        await publish(13, 14, 15, 16)
        assert [m.data[0] for m in await receive(subscription, 3)] == [13, 14, 15]
        await publish(17)
        assert [m.data[0] for m in await receive(subscription, 1)] == [17]
        await publish(18)
        seen.clear()
        await read(1)
        assert seen == [18], "a gap that was read over isn't told later"
        await subscription.unsubscribe()
        assert [item async for item in subscription.with_gaps()] == []
        assert [message async for message in subscription] == []


async def test_a_buffer_is_bounded_in_bytes() -> None:
    size, room = 1_000_000, BUFFER_BYTES // 1_000_100
    async with running_nodes(1, router=flood, pubsub_class=ResilientPubsub) as (node,):
        assert isinstance(node.pubsub, ResilientPubsub)
        subscription = await node.pubsub.subscribe(TOPIC)
        for number in range(room + 3):
            await node.pubsub.publish(TOPIC, bytes([number]) * size)
        await node.pubsub.publish(TOPIC, b"a small one fits")
        assert node.pubsub.lagging == {TOPIC: 3}
        items = await subscription.take(room + 10)
        assert [m.data[0] for m in items[:room] if isinstance(m, Message)] == list(range(room))
        assert items[room] == Lagged(3)
        await node.pubsub.publish(TOPIC, bytes(size))
        assert node.pubsub.lagging == {TOPIC: 3}, "what was read makes room"


async def test_a_message_larger_than_the_buffer_is_taken_alone() -> None:
    sender = BoundedSender[int](4, 10, size_of=lambda item: item)
    sender.send_nowait(11)
    with pytest.raises(trio.WouldBlock):
        sender.send_nowait(1)
    assert await sender.receive.receive() == 11
    sender.send_nowait(10)


async def test_drops_are_counted_by_topic_and_told_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options: dict[str, Any] = {"params": PubsubParams(subscription_buffer=4, warn_every=10)}
    async with running_nodes(
        1, router=flood, pubsub_class=ResilientPubsub, pubsub_options=options
    ) as (node,):
        assert isinstance(node.pubsub, ResilientPubsub)
        lagging, reading = [await node.pubsub.subscribe(topic) for topic in ("slow", "quick")]
        with caplog.at_level(logging.WARNING, "episub_router"):
            for _ in range(15):
                await node.pubsub.publish(["slow", "quick"], b"x")
                await receive(reading)
        assert node.pubsub.lagging == {"slow": 11}
        assert node.pubsub.drops == {PubsubDrop.SUBSCRIBER_SLOW: 11}
        told = [r.getMessage() for r in caplog.records if r.name.startswith("episub_router.pubsub")]
        assert told == [
            "the subscription to 'slow' doesn't keep up: 1 messages dropped so far",
            "the subscription to 'slow' doesn't keep up: 11 messages dropped so far",
        ]
        await lagging.unsubscribe()
        assert node.pubsub.lagging == {}
        assert node.pubsub.drops == {PubsubDrop.SUBSCRIBER_SLOW: 11}


async def test_subscribing_twice_gives_the_same_subscription() -> None:
    async with running_nodes(1, router=flood, pubsub_class=ResilientPubsub) as (node,):
        first = await node.pubsub.subscribe(TOPIC)
        assert await node.pubsub.subscribe(TOPIC) is first


@pytest.mark.parametrize(
    "name", ["subscription_buffer", "max_validating", "warn_every", "seen_ttl"]
)
def test_a_parameter_that_is_not_positive_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be more than 0: 0"):
        PubsubParams(**{name: 0})
