"""Messages under StrictSign and StrictNoSign."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from libp2p import new_host
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.pubsub import get_content_addressed_msg_id

from episub_router import EpisubRouter, PubsubDrop, ResilientPubsub, SignaturePolicy
from tests.hosts import PATIENCE, bounded_gossipsub, connect_all, receive, running_nodes
from tests.pubsub.frames import resilient
from tests.router.overlays import push

TOPIC = "news"
NO_SIGN = SignaturePolicy.STRICT_NO_SIGN


def ethereum_id(message: Message) -> bytes:
    """Altair's function for data that isn't Snappy's: 20 bytes of a hash over a domain, the
    topic with its length, and the data."""
    topic = message.topicIDs[0].encode()
    text = bytes(4) + len(topic).to_bytes(8, "little") + topic + message.data
    return sha256(text).digest()[:20]


OPTIONS = {"signature_policy": NO_SIGN, "msg_id_constructor": ethereum_id}


@pytest.mark.hosts
@pytest.mark.parametrize("offer_episub", [True, False])
async def test_without_signatures_a_message_is_its_topic_and_its_data(offer_episub: bool) -> None:
    async with running_nodes(
        3,
        router=lambda: EpisubRouter(offer_episub=offer_episub, seed=1),
        pubsub_class=ResilientPubsub,
        pubsub_options=OPTIONS,
    ) as nodes:
        await connect_all([(nodes[0], nodes[1]), (nodes[1], nodes[2])])
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        for a, b in ((0, 1), (1, 0), (1, 2), (2, 1)):
            await nodes[a].pubsub.wait_for_mesh(nodes[b].id, TOPIC, timeout=PATIENCE)
        for number in range(3):
            await nodes[0].pubsub.publish(TOPIC, b"%d" % number)
        for subscription in subscriptions:
            got = await receive(subscription, 3)
            assert sorted(m.data for m in got) == [b"0", b"1", b"2"]
            assert {tuple(f.name for f, _ in m.ListFields()) for m in got} == {("data", "topicIDs")}
        await nodes[0].pubsub.publish(TOPIC, b"2")  # the same content is the same message
        await nodes[0].pubsub.publish(TOPIC, b"3")
        assert [m.data for m in await receive(subscriptions[2])] == [b"3"]


@pytest.mark.hosts
@pytest.mark.parametrize("field", ["from_id", "seqno", "signature", "key"])
async def test_what_names_an_author_is_refused_be_it_empty(field: str) -> None:
    async with (
        running_nodes(
            1, router=EpisubRouter, pubsub_class=ResilientPubsub, pubsub_options=OPTIONS
        ) as [node],
        running_nodes(1, router=bounded_gossipsub, seed=1) as [other],
    ):
        await connect_all([(other, node)])
        subscription = await node.pubsub.subscribe(TOPIC)
        bad = Message(data=b"bad", topicIDs=[TOPIC], **{field: b""})
        good = Message(data=b"good", topicIDs=[TOPIC])
        push(other, node, RPC(publish=[bad, good]))
        assert [m.data for m in await receive(subscription)] == [b"good"]
        assert resilient(node).drops[PubsubDrop.MESSAGE_AUTHORED] == 1


@pytest.mark.hosts
async def test_with_signatures_ids_may_be_those_of_the_content() -> None:
    async with running_nodes(
        2,
        router=lambda: EpisubRouter(offer_episub=False),
        pubsub_class=ResilientPubsub,
        pubsub_options={
            "signature_policy": SignaturePolicy.STRICT_SIGN,
            "msg_id_constructor": get_content_addressed_msg_id,
        },
    ) as (a, b):
        await connect_all([(a, b)])
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in (a, b)]
        await a.pubsub.wait_for_mesh(b.id, TOPIC, timeout=PATIENCE)
        push(a, b, RPC(publish=[Message(data=b"unsigned", topicIDs=[TOPIC])]))
        for data in (b"x", b"x", b"y"):
            await a.pubsub.publish(TOPIC, data)
        assert [m.data for m in await receive(subscriptions[1], 2)] == [b"x", b"y"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"signature_policy": NO_SIGN}, "needs a msg_id_constructor"),
        ({**OPTIONS, "strict_signing": True}, "strict_signing=True contradicts StrictNoSign"),
        (
            {"signature_policy": SignaturePolicy.STRICT_SIGN, "strict_signing": False},
            "strict_signing=False contradicts StrictSign",
        ),
    ],
)
def test_what_contradicts_a_policy_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ResilientPubsub(new_host(), EpisubRouter(), **options)


def test_a_policy_is_no_text() -> None:
    with pytest.raises(TypeError, match="signature_policy must be a SignaturePolicy or None"):
        ResilientPubsub(new_host(), EpisubRouter(), signature_policy="StrictNoSign")  # type: ignore[arg-type]
