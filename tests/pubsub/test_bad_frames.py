"""Frames that are no RPC, are too long, or make the router raise."""

from __future__ import annotations

import random

import pytest
import trio
from libp2p.peer.envelope import seal_record
from libp2p.peer.id import ID
from libp2p.peer.peer_record import PeerRecord
from libp2p.pubsub.floodsub import FloodSub
from libp2p.pubsub.pb.rpc_pb2 import RPC, ControlGraft, ControlMessage, ControlPrune, Message
from libp2p.pubsub.pubsub import GossipsubEvent, Pubsub
from libp2p.utils import encode_varint_prefixed
from libp2p.utils.varint import encode_uvarint
from multiaddr import Multiaddr

from episub_router import PubsubDrop, ResilientPubsub
from episub_router.pubsub.inbound import MAX_CONTROL
from tests.hosts import (
    PATIENCE,
    Node,
    connect_all,
    eventually,
    receive,
    running_nodes,
    subscribe_all,
)
from tests.pubsub.frames import (
    GARBAGE,
    TOPIC,
    flood,
    open_new,
    open_raw,
    pair,
    publishing,
    resilient,
    send,
    signed,
    subscribing,
)

pytestmark = pytest.mark.hosts

TOO_LONG = encode_uvarint(2**20 + 1)
ENDLESS_LENGTH = b"\xff" * 10


async def check_both_ways(a: Node, b: Node) -> None:
    """A message of each node reaches the other's subscription."""
    at_a = a.pubsub.subscribed_topics_receive[TOPIC]
    at_b = b.pubsub.subscribed_topics_receive[TOPIC]
    for sender, receiver in ((a, at_b), (b, at_a)):
        data = f"from {sender.id}".encode()
        received = b""
        with trio.fail_after(PATIENCE):
            while received != data:
                # What is written to a stream that was reset is lost, and opens a new one.
                await sender.pubsub.publish(TOPIC, data)
                with trio.move_on_after(1):
                    while received != data:
                        received = (await receiver.get()).data


def streams_between(a: Node, b: Node) -> int:
    return sum(len(c.get_streams()) for c in a.host.get_network().get_connections(b.id))


def drops(node: Node) -> dict[PubsubDrop, int]:
    return dict(resilient(node).drops)


async def test_stock_dies_of_a_garbage_frame() -> None:
    async with pair(flood, Pubsub) as (attacker, victim):
        stream = await open_raw(attacker, victim)
        await stream.write(GARBAGE)
        assert "DecodeError" in repr(await victim.crashed())


async def test_stock_forgets_a_peer_over_a_frame_that_is_too_long() -> None:
    async with pair(flood, Pubsub) as (attacker, victim):
        await subscribe_all([attacker, victim], TOPIC)
        stream = await open_raw(attacker, victim)
        await stream.write(TOO_LONG)
        await eventually(lambda: attacker.id not in victim.pubsub.peer_topics.get(TOPIC, ()))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (GARBAGE, PubsubDrop.FRAME_MALFORMED),
        (ENDLESS_LENGTH, PubsubDrop.FRAME_MALFORMED),
        (TOO_LONG, PubsubDrop.FRAME_OVERSIZED),
    ],
    ids=["garbage", "endless length", "too long"],
)
async def test_a_bad_frame_costs_its_stream_and_nothing_else(
    frame: bytes, reason: PubsubDrop
) -> None:
    async with running_nodes(3, router=flood, pubsub_class=ResilientPubsub) as nodes:
        attacker, victim, other = nodes
        await connect_all([(attacker, victim), (other, victim)])
        await subscribe_all(nodes, TOPIC)
        streams = dict(victim.pubsub.peers)
        stream = await open_raw(attacker, victim)
        await stream.write(frame)
        await eventually(lambda: drops(victim) == {reason: 1})
        await check_both_ways(victim, other)
        await check_both_ways(victim, attacker)
        assert victim.pubsub.peers == streams


async def test_random_frames_are_survived() -> None:
    rng = random.Random(5)
    async with pair() as (attacker, victim):
        await subscribe_all([attacker, victim], TOPIC)
        before = streams_between(victim, attacker)
        template = RPC(
            subscriptions=[RPC.SubOpts(subscribe=True, topicid="u")],
            publish=[Message(from_id=attacker.id.to_bytes(), data=b"x", topicIDs=[TOPIC])],
            control=ControlMessage(),
        ).SerializeToString()
        for _ in range(100):
            mutated = bytearray(template)
            for _ in range(rng.randrange(1, 6)):
                mutated[rng.randrange(len(mutated))] = rng.randrange(256)
            stream = await open_new(attacker, victim)
            await stream.write(encode_varint_prefixed(bytes(mutated)))
            await stream.close()
        await check_both_ways(victim, attacker)
        await eventually(lambda: streams_between(victim, attacker) == before)
        assert PubsubDrop.FRAME_MALFORMED in drops(victim)
        assert PubsubDrop.STREAM_FAILED not in drops(victim)


async def test_the_rest_of_a_frame_with_an_unreadable_topic_is_used() -> None:
    async with pair() as (attacker, victim):
        stream = await open_raw(attacker, victim)
        rpc = RPC(
            subscriptions=[
                RPC.SubOpts(subscribe=True, topicid="bad"),
                RPC.SubOpts(subscribe=True, topicid="good"),
            ]
        )
        raw = rpc.SerializeToString().replace(b"bad", b"\xff\xfe\xfd")
        await stream.write(encode_varint_prefixed(raw))
        await victim.pubsub.wait_for_subscription(attacker.id, "good")
        assert list(victim.pubsub.peer_topics) == ["good"]
        assert drops(victim) == {PubsubDrop.TOPIC_UNREADABLE: 1}


async def test_a_message_with_an_unreadable_topic_is_dropped() -> None:
    async with pair() as (attacker, victim):
        subscription = await victim.pubsub.subscribe(TOPIC)
        bad, good = signed(attacker, 1, b"bad"), signed(attacker, 2, b"good")
        bad.topicIDs.append("bad topic")
        raw = publishing(bad, good).SerializeToString().replace(b"bad topic", b"\xff" * 9)
        stream = await open_raw(attacker, victim)
        await stream.write(encode_varint_prefixed(raw))
        assert [msg.data for msg in await receive(subscription)] == [b"good"]
        assert drops(victim) == {PubsubDrop.TOPIC_UNREADABLE: 1}


async def test_py_libp2p_gets_its_metrics() -> None:
    async with pair() as (sender, receiver):
        events, metrics = trio.open_memory_channel[GossipsubEvent](1)
        for connection in receiver.host.get_network().get_connections(sender.id):
            for stream in connection.get_streams():
                stream.metric_send_channel = events
        await sender.pubsub.subscribe(TOPIC)
        with trio.fail_after(PATIENCE):
            event = await metrics.receive()
            while not event.subopts:  # the hello, which may come late
                event = await metrics.receive()
        assert event.peer_id == sender.id.pretty()
        assert (event.publish, event.subopts, event.control) == (False, True, False)
        assert event.message_size


async def test_too_many_subscriptions_at_once_are_dropped_and_counted() -> None:
    async with pair(max_subscriptions_per_rpc=2) as (attacker, victim):
        stream = await open_raw(attacker, victim)
        await send(
            stream,
            subscribing(*"abc"),
            subscribing("d"),
        )
        await victim.pubsub.wait_for_subscription(attacker.id, "d")
        assert list(victim.pubsub.peer_topics) == ["d"]
        assert drops(victim) == {PubsubDrop.SUBSCRIPTIONS_TOO_MANY: 1}


async def test_a_record_of_thousands_of_addresses_is_not_stored() -> None:
    """Its sender signed it. py-libp2p compares each address with all before, which takes 2 s."""
    async with pair() as (attacker, victim):
        stream = await open_raw(attacker, victim)
        addresses = [Multiaddr(f"/ip4/10.0.{n >> 8}.{n & 255}/tcp/1") for n in range(5000)]
        key = attacker.host.get_private_key()
        record = seal_record(PeerRecord(attacker.id, addresses, 2**62), key).marshal_envelope()
        await send(
            stream,
            RPC(senderRecord=record),
            subscribing("b"),
        )
        await victim.pubsub.wait_for_subscription(attacker.id, "b")
        assert len(victim.host.get_peerstore().addrs(attacker.id)) < 100
        assert drops(victim) == {PubsubDrop.RECORD_INVALID: 1}


async def test_a_frame_of_thousands_of_control_messages_is_dropped() -> None:
    """GossipSub takes 1.9 s for 846 kB of GRAFTs for topics that nobody is in."""
    async with pair() as (attacker, victim):
        stream = await open_raw(attacker, victim)
        handled: list[int] = []

        async def handle_rpc(rpc: RPC, sender: ID) -> None:
            handled.append(len(rpc.control.graft))

        vars(victim.router)["handle_rpc"] = handle_rpc
        for count in (MAX_CONTROL, MAX_CONTROL + 1):
            grafts = [ControlGraft(topicID=f"{number}") for number in range(count)]
            await send(stream, RPC(control=ControlMessage(graft=grafts)))
        await send(stream, subscribing("b"))
        await victim.pubsub.wait_for_subscription(attacker.id, "b")
        assert handled == [MAX_CONTROL]
        assert drops(victim) == {PubsubDrop.FRAME_CROWDED: 1}


async def test_a_frame_with_a_record_of_another_peer_is_dropped() -> None:
    async with pair() as (attacker, victim):
        stream = await open_raw(attacker, victim)
        forged = RPC(subscriptions=[RPC.SubOpts(subscribe=True, topicid="a")], senderRecord=b"no")
        await send(stream, forged, subscribing("b"))
        await victim.pubsub.wait_for_subscription(attacker.id, "b")
        assert list(victim.pubsub.peer_topics) == ["b"]
        assert drops(victim) == {PubsubDrop.RECORD_INVALID: 1}


class RaisingFlood(FloodSub):
    """A router with a bug in its handling of control messages."""

    async def handle_rpc(self, rpc: RPC, sender_peer_id: ID) -> None:
        raise LookupError("a bug in a router")


def raising() -> FloodSub:
    return RaisingFlood(flood().get_protocols())


CONTROL = RPC(control=ControlMessage(prune=[ControlPrune(topicID=TOPIC)]))


async def test_stock_dies_of_a_router_that_raises() -> None:
    async with pair(raising, Pubsub) as (sender, victim):
        await send(await open_raw(sender, victim), CONTROL)
        assert "LookupError" in repr(await victim.crashed())


async def test_a_router_that_raises_costs_the_frame_only() -> None:
    async with pair(raising) as (sender, victim):
        await subscribe_all([sender, victim], TOPIC)
        await send(await open_raw(sender, victim), CONTROL, CONTROL, subscribing("after"))
        await victim.pubsub.wait_for_subscription(sender.id, "after")
        assert drops(victim) == {PubsubDrop.ROUTER_RAISED: 2}
        await check_both_ways(sender, victim)
