"""Publishing to topics that the publisher isn't in."""

from __future__ import annotations

import pytest

from episub_router import EpisubRouter
from episub_router.net import payloads
from episub_router.net.counters import Ordinary, Reason
from tests.hosts import connect, connect_all, eventually, receive, running_nodes
from tests.router.overlays import TOPIC, count, joined, overlay_of, reading, router

pytestmark = pytest.mark.hosts


async def test_a_publisher_that_has_not_joined_reaches_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(payloads, "FANOUT_DEGREE", 2)
    messages = [b"%d" % number for number in range(10)]
    async with (
        overlay_of(6) as (nodes, subscriptions),
        running_nodes(
            1,
            router=lambda: EpisubRouter(seed=1),
            seed=1,
        ) as [publisher],
        reading(subscriptions) as readers,
    ):
        await connect_all([(publisher, node) for node in nodes[:3]])
        for node in nodes[:3]:
            await publisher.pubsub.wait_for_subscription(node.id, TOPIC)
        for message in messages:
            await publisher.pubsub.publish(TOPIC, message)
        await readers.all_have(messages)
        chosen = router(publisher).fanout[TOPIC]
        assert len(chosen) == 2
        assert chosen < {node.id for node in nodes}
        assert router(publisher).mesh == {}
        assert count(publisher, Ordinary.PAYLOADS_SENT) == 20
        assert not any(publisher.id in router(node).mesh[TOPIC] for node in nodes)


async def test_a_lost_fanout_peer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "FANOUT_DEGREE", 1)
    async with (
        overlay_of(3) as (nodes, subscriptions),
        running_nodes(
            1,
            router=lambda: EpisubRouter(seed=1),
            seed=1,
        ) as [publisher],
    ):
        await connect_all([(publisher, node) for node in nodes])
        for node in nodes:
            await publisher.pubsub.wait_for_subscription(node.id, TOPIC)
        await publisher.pubsub.publish(TOPIC, b"one")
        [first] = router(publisher).fanout[TOPIC]
        index = next(i for i, node in enumerate(nodes) if node.id == first)
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"one"]
        await nodes[index].pubsub.unsubscribe(TOPIC)
        await eventually(lambda: first not in publisher.pubsub.peer_topics[TOPIC])
        await publisher.pubsub.publish(TOPIC, b"two")
        [second] = router(publisher).fanout[TOPIC]
        assert second != first
        del subscriptions[index]
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"two"]


async def test_what_was_published_to_nobody_is_kept_for_the_first_subscriber() -> None:
    async with running_nodes(2, router=EpisubRouter) as (publisher, subscriber):
        subscription = await subscriber.pubsub.subscribe(TOPIC)
        await publisher.pubsub.publish(TOPIC, b"early")
        assert count(publisher, Reason.FANOUT_EMPTY) == 1
        await connect(publisher, subscriber)
        assert [m.data for m in await receive(subscription)] == [b"early"]


async def test_joining_ends_fanout() -> None:
    async with running_nodes(2, router=EpisubRouter) as (publisher, subscriber):
        subscription = await subscriber.pubsub.subscribe(TOPIC)
        await connect(publisher, subscriber)
        await publisher.pubsub.wait_for_subscription(subscriber.id, TOPIC)
        await publisher.pubsub.publish(TOPIC, b"from outside")
        assert router(publisher).fanout == {TOPIC: {subscriber.id}}
        await publisher.pubsub.subscribe(TOPIC)
        assert router(publisher).fanout == {}
        await joined([publisher, subscriber])
        await publisher.pubsub.publish(TOPIC, b"from inside")
        assert [m.data for m in await receive(subscription, 2)] == [
            b"from outside",
            b"from inside",
        ]
