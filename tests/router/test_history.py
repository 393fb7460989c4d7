"""What a subscriber is given of the messages from before it subscribed."""

from __future__ import annotations

import pytest
from libp2p.abc import ISubscriptionAPI

from episub_router import EpisubRouter, ResilientPubsub
from tests.hosts import Node, connect, connect_all, eventually, receive, running_nodes
from tests.router.overlays import TOPIC, joined, parts, router

pytestmark = pytest.mark.hosts


async def next_ones(nodes: list[Node], reader: ISubscriptionAPI, given: bool) -> list[bytes]:
    """What `reader`, of the last of `nodes`, gets first, once its first announcements are over."""
    await router(nodes[0]).wait_for_mesh(nodes[1].id, TOPIC)
    await router(nodes[1]).wait_for_mesh(nodes[2].id, TOPIC, 30)
    got = [m.data for m in await receive(reader)] if given else []
    await eventually(lambda: parts(nodes[2]).topics.may_ask(TOPIC))
    await nodes[0].pubsub.publish(TOPIC, b"after")
    return got + [m.data for m in await receive(reader)]


@pytest.mark.parametrize("history", [True, False])
async def test_a_newcomer_is_given_the_last_messages_unless_it_wants_none(history: bool) -> None:
    async with running_nodes(3, router=EpisubRouter, pubsub_class=ResilientPubsub) as nodes:
        early = [await node.pubsub.subscribe(TOPIC) for node in nodes[:2]]
        await connect(nodes[0], nodes[1])
        await joined(nodes[:2])
        await nodes[0].pubsub.publish(TOPIC, b"before")
        assert await receive(early[1])
        pubsub = nodes[2].pubsub
        assert isinstance(pubsub, ResilientPubsub)
        late = await pubsub.subscribe(TOPIC, history=history)
        await connect(nodes[2], nodes[1])
        assert await next_ones(nodes, late, history) == [b"before"] * history + [b"after"]


@pytest.mark.parametrize("history", [True, None])
async def test_one_that_comes_back_is_given_them_if_it_asks(history: bool | None) -> None:
    async with running_nodes(3, router=EpisubRouter, pubsub_class=ResilientPubsub) as nodes:
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        await connect_all([(nodes[0], nodes[1]), (nodes[1], nodes[2])])
        await joined(nodes)
        pubsub = nodes[2].pubsub
        assert isinstance(pubsub, ResilientPubsub)
        await pubsub.unsubscribe(TOPIC)
        await eventually(lambda: not any(nodes[2].id in router(n).mesh[TOPIC] for n in nodes[:2]))
        await nodes[0].pubsub.publish(TOPIC, b"missed")
        assert await receive(subscriptions[1])
        again = await pubsub.subscribe(TOPIC, history=history)
        missed = [b"missed"] if history else []
        assert await next_ones(nodes, again, bool(history)) == [*missed, b"after"]


async def test_a_gossipsub_node_keeps_no_word_of_what_it_never_joins() -> None:
    def gossipsub_alone() -> EpisubRouter:
        return EpisubRouter(offer_episub=False)

    async with running_nodes(1, router=gossipsub_alone, pubsub_class=ResilientPubsub) as (node,):
        assert isinstance(node.pubsub, ResilientPubsub)
        await node.pubsub.subscribe(TOPIC, history=False)
        assert not parts(node).topics.without_history
