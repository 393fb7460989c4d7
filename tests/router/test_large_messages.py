"""A whole message that doesn't fit an RPC is refused, unless the limit is raised."""

from __future__ import annotations

import pytest
import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.pubsub.pubsub import Pubsub

from episub_router import BroadcastParams, EpisubParams, MessageTooLarge, ResilientPubsub
from episub_router.net.counters import Reason
from tests.hosts import receive
from tests.router.overlays import TOPIC, count, overlay_of

pytestmark = pytest.mark.hosts
MIB = 2**20
WHOLE = EpisubParams(broadcast=BroadcastParams(piece_threshold=0))


async def is_empty(subscription: ISubscriptionAPI) -> bool:
    with trio.move_on_after(0.05) as waiting:
        await subscription.get()
    return waiting.cancelled_caught


async def test_the_largest_message_arrives_and_one_byte_more_is_refused() -> None:
    async with overlay_of(3, params=WHOLE, pubsub_class=ResilientPubsub) as (nodes, subscriptions):
        with pytest.raises(MessageTooLarge, match="and at most 1,048,508 fit an RPC") as refused:
            await nodes[0].pubsub.publish(TOPIC, bytes(MIB))
        assert refused.value.limit == 1_048_508
        assert await is_empty(subscriptions[0])
        largest = MIB - (refused.value.size - refused.value.limit)
        with pytest.raises(MessageTooLarge):
            await nodes[0].pubsub.publish(TOPIC, bytes(largest + 1))
        await nodes[0].pubsub.publish(TOPIC, bytes(largest))
        for subscription in subscriptions:
            assert [len(message.data) for message in await receive(subscription)] == [largest]
        assert count(nodes, Reason.OVERSIZE) == 0


async def test_all_nodes_together_raise_the_limit() -> None:
    async with overlay_of(
        3,
        params=WHOLE,
        pubsub_class=ResilientPubsub,
        pubsub_options={"max_inbound_rpc_size": 6 * MIB},
    ) as (nodes, subscriptions):
        # More than backlog_bytes.
        await nodes[0].pubsub.publish(TOPIC, bytes(5 * MIB))
        for subscription in subscriptions:
            assert [len(message.data) for message in await receive(subscription)] == [5 * MIB]


async def test_under_the_stock_class_the_error_comes_after_local_delivery() -> None:
    async with overlay_of(2, params=WHOLE, pubsub_class=Pubsub) as (nodes, subscriptions):
        with pytest.raises(MessageTooLarge):
            await nodes[0].pubsub.publish(TOPIC, bytes(MIB))
        await receive(subscriptions[0])
        await nodes[0].pubsub.publish(TOPIC, b"small")
        assert [message.data for message in await receive(subscriptions[1])] == [b"small"]
