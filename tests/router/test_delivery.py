"""Every message reaches every host once, whatever happens to the overlay meanwhile."""

from __future__ import annotations

from hashlib import sha256

import pytest
import trio
from libp2p.pubsub.pb import rpc_pb2

from episub_router import ResilientPubsub, SignaturePolicy
from episub_router.net.counters import Ordinary, Reason
from episub_router.wire import source_id
from tests.hosts import eventually, receive
from tests.router.overlays import (
    TOPIC,
    count,
    crash,
    joined,
    neighbors,
    overlay_of,
    reading,
    router,
)

pytestmark = pytest.mark.hosts


def content_id(message: rpc_pb2.Message) -> bytes:
    return sha256(message.data).digest()


def texts(count: int, prefix: str = "message") -> list[bytes]:
    return [f"{prefix} {number}".encode() for number in range(count)]


@pytest.mark.parametrize("size", [2, 3, 8])
async def test_each_message_reaches_each_host_once_and_soon_along_a_tree(size: int) -> None:
    """An overlay that still grows adds eager links: the tree is there once it is at rest."""
    messages = texts(300)
    published = 0
    async with overlay_of(size) as (nodes, subscriptions), reading(subscriptions) as readers:
        duplicates = size
        while duplicates > size - 1:
            assert published < len(messages), f"{duplicates} duplicates of the last ten messages"
            copies = count(nodes, Ordinary.PAYLOADS_SENT)
            for message in messages[published : published + 10]:
                await nodes[0].pubsub.publish(TOPIC, message)
                published += 1
                await readers.each_has(published)
            duplicates = count(nodes, Ordinary.PAYLOADS_SENT) - copies - 10 * (size - 1)
        await readers.all_have(messages[:published])
        assert count(nodes, Reason.ERROR) == 0


async def test_several_sources() -> None:
    async with overlay_of(8) as (nodes, subscriptions), reading(subscriptions) as readers:
        messages = []
        for round in range(5):
            for index, node in enumerate(nodes):
                messages.append(f"{round} from {index}".encode())
                await node.pubsub.publish(TOPIC, messages[-1])
        await readers.all_have(messages)


async def test_the_tree_is_repaired_when_hosts_die() -> None:
    async with overlay_of(10) as (nodes, subscriptions):
        survivors = nodes[:7]
        async with reading(subscriptions[:7]) as readers:
            before, during, after = texts(5, "before"), texts(10, "during"), texts(5, "after")
            for message in before:
                await nodes[0].pubsub.publish(TOPIC, message)
            await readers.all_have(before)
            for node in nodes[7:]:
                await crash(node)
            for message in during:
                await nodes[0].pubsub.publish(TOPIC, message)
            await readers.all_have(before + during)
            await joined(survivors)
            dead = {node.id for node in nodes[7:]}
            assert not any(dead & router(node).mesh[TOPIC] for node in survivors)
            for message in after:
                await nodes[0].pubsub.publish(TOPIC, message)
            await readers.all_have(before + during + after)


async def test_a_burst_arrives_completely() -> None:
    messages = texts(500)
    async with (
        overlay_of(4, pubsub_class=ResilientPubsub) as (nodes, subscriptions),
        reading(subscriptions[1:]) as readers,
    ):
        for message in messages:
            await nodes[0].pubsub.publish(TOPIC, message)
        await readers.all_have(messages)


async def test_who_leaves_gets_nothing_and_can_come_back() -> None:
    async with overlay_of(5) as (nodes, subscriptions):
        leaver, others = nodes[4], nodes[:4]
        await leaver.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: not any(leaver.id in router(n).mesh[TOPIC] for n in others))
        assert TOPIC not in router(leaver).mesh
        with pytest.raises(KeyError):
            router(leaver).overlay(TOPIC)
        received = count(leaver, Ordinary.PAYLOADS_RECEIVED)
        await nodes[0].pubsub.publish(TOPIC, b"while away")
        for subscription in subscriptions[:4]:
            assert [m.data for m in await receive(subscription)] == [b"while away"]
        assert count(leaver, Ordinary.PAYLOADS_RECEIVED) == received

        again = await leaver.pubsub.subscribe(TOPIC)
        await joined(nodes)
        await nodes[0].pubsub.publish(TOPIC, b"back again")
        got = [m.data for m in await receive(again)]
        # What was published moments before may be announced to a new neighbour, too.
        if got == [b"while away"]:
            got = [m.data for m in await receive(again)]
        assert got == [b"back again"]


async def test_the_topics_of_a_node_have_overlays_of_their_own() -> None:
    async with overlay_of(3) as (nodes, subscriptions):
        others = [await node.pubsub.subscribe("other") for node in nodes[:2]]
        await router(nodes[0]).wait_for_mesh(nodes[1].id, "other")
        await nodes[0].pubsub.publish("other", b"for two")
        assert [m.data for m in await receive(others[1])] == [b"for two"]
        await nodes[0].pubsub.publish([TOPIC, "other"], b"for all")
        for subscription in [*subscriptions, *others]:
            got = [m.data for m in await receive(subscription)]
            if got == [b"for two"]:
                got = [m.data for m in await receive(subscription)]
            assert got == [b"for all"]
        assert neighbors(nodes[2], "other") == 0


async def test_a_message_that_comes_twice_during_validation_is_delivered_once() -> None:
    """Pubsub itself validates, delivers and forwards it once per copy that raced."""

    async def slowly(peer: object, message: object) -> bool:
        await trio.sleep(0.05)
        return True

    async with overlay_of(6) as (nodes, _):
        for node in nodes:
            node.pubsub.set_topic_validator(TOPIC, slowly, is_async_validator=True)
        for number in range(5):
            await nodes[0].pubsub.publish(TOPIC, b"%d" % number)
        await eventually(lambda: count(nodes, Ordinary.DELIVERED) == 30)
        assert count(nodes, Reason.ERROR) == 0


async def test_what_a_validator_rejects_is_not_forwarded() -> None:
    async with overlay_of(4) as (nodes, subscriptions):
        for node in nodes[1:]:
            node.pubsub.set_topic_validator(
                TOPIC, lambda peer, message: message.data != b"bad", is_async_validator=False
            )
        await nodes[0].pubsub.publish(TOPIC, b"bad")
        await nodes[0].pubsub.publish(TOPIC, b"good")
        for subscription in subscriptions[1:]:
            assert [m.data for m in await receive(subscription)] == [b"good"]
        assert count(nodes[1:], Ordinary.DELIVERED) == 3


async def test_sources_have_trees_of_their_own() -> None:
    """Each host knows its parent in the tree of each source, which its messages go along."""
    async with overlay_of(6) as (nodes, subscriptions), reading(subscriptions) as readers:
        sources = nodes[:2]
        ids = {source_id(source.id.to_bytes()) for source in sources}

        def all_stand() -> bool:
            """Whether each host has a parent in each tree, and is among its children."""
            trees = {
                (node.id, tree.source): tree
                for node in nodes
                for tree in router(node).overlay(TOPIC).trees
            }
            return all(
                (tree := trees.get((node.id, source))) is not None
                and (
                    tree.own
                    or (tree.parent is not None and node.id in trees[tree.parent, source].children)
                )
                for node in nodes
                for source in ids
            )

        for source in sources:
            await source.pubsub.publish(TOPIC, b"first of %s" % source.id.to_bytes())
        await readers.each_has(len(sources))
        await eventually(all_stand)
        # They are used half a second after their ROOT; then each message comes once.
        published, least = len(sources), 10 * (len(nodes) - 1)
        copies = 2 * least
        while copies > least + 1:
            assert published < 300, f"{copies} copies of the last ten messages"
            before = count(nodes, Ordinary.PAYLOADS_SENT)
            for source in (*sources, *sources, *sources, *sources, *sources):
                await source.pubsub.publish(TOPIC, b"%d" % published)
                published += 1
                await readers.each_has(published)
            copies = count(nodes, Ordinary.PAYLOADS_SENT) - before
        assert count(nodes, Reason.ERROR) == 0


async def test_messages_without_authors_go_along_a_tree_of_their_publisher() -> None:
    """StrictNoSign: each publisher's tree has an id that doesn't say whose it is."""
    options = {"signature_policy": SignaturePolicy.STRICT_NO_SIGN, "msg_id_constructor": content_id}
    async with (
        overlay_of(6, pubsub_class=ResilientPubsub, pubsub_options=options) as (
            nodes,
            subscriptions,
        ),
        reading(subscriptions) as readers,
    ):
        published: list[bytes] = []

        def roots() -> set[object]:
            """The trees that all nodes have a part in, and that carried a message."""
            trees = [
                {
                    tree.source
                    for tree in router(node).overlay(TOPIC).trees
                    if tree.own or tree.parent
                }
                for node in nodes
            ]
            return set.intersection(*trees)

        while len(roots()) < 2:
            for index in (0, 1):
                published.append(b"%d of %d" % (len(published), index))
                await nodes[index].pubsub.publish(TOPIC, published[-1])
            await readers.each_has(len(published))
            assert len(published) < 300
        await readers.all_have(published)
        assert not roots() & {source_id(node.id.to_bytes()) for node in nodes}
