"""Bad input is counted under its reason, harms nobody, and is survived."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from libp2p.abc import ISubscriptionAPI
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import PUBSUB_SIGNING_PREFIX as PREFIX
from libp2p.utils.varint import encode_uvarint

from episub_router import PROTOCOL_ID, EpisubParams, EpisubRouter, PubsubDrop, ResilientPubsub
from episub_router.net.counters import Ordinary, Reason
from episub_router.net.peers import RemotePeer
from episub_router.protocol import messages as m
from episub_router.protocol.effects import DropReason
from episub_router.protocol.events import PayloadArrived, PayloadRejected
from episub_router.wire import Decoded, WireFault, decode_frame
from episub_router.wire.leave_proof import sign_leave
from episub_router.wire.root_gate import ROOT_RATE
from tests.hosts import Node, connect, eventually, receive, running_nodes
from tests.router.overlays import (
    TOPIC,
    count,
    joined,
    overlay_of,
    parts,
    push,
    push_frame,
    record,
    router,
)

pytestmark = pytest.mark.hosts


@asynccontextmanager
async def victims_and_attacker() -> AsyncIterator[tuple[list[Node], list[ISubscriptionAPI], Node]]:
    """Three nodes in an overlay, and a fourth that is connected to the first and not in it."""
    async with (
        overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, subscriptions),
        running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub, seed=1) as [attacker],
    ):
        await connect(attacker, nodes[0])
        yield nodes, subscriptions, attacker


async def assert_unharmed(nodes: list[Node], subscriptions: list[ISubscriptionAPI]) -> None:
    """Messages come through from every node, and no hook has failed."""
    for index, node in enumerate(nodes):
        await node.pubsub.publish(TOPIC, b"from %d" % index)
        for subscription in subscriptions:
            assert [msg.data for msg in await receive(subscription)] == [b"from %d" % index]
    assert count(nodes, Reason.ERROR) == 0
    assert all(len(router(node).mesh[TOPIC]) == len(nodes) - 1 for node in nodes)


def frames_to(node: Node) -> list[Decoded]:
    """Records every Episub frame that `node` receives from now on."""
    frames: list[Decoded] = []
    receive_rpc = parts(node).inbound.receive

    def spy(peer: RemotePeer, rpc: rpc_pb2.RPC) -> bool:
        frame = decode_frame(rpc)
        assert frame is not None
        frames.append(frame)
        return receive_rpc(peer, rpc)

    parts(node).inbound.receive = spy  # type: ignore[method-assign]
    return frames


def events_of(node: Node) -> list[Any]:
    """Records every event that the core of `node` is fed from now on."""
    events: list[Any] = []
    feed = parts(node).topics.feed

    def spy(topic: str, event: Any) -> None:
        events.append(event)
        feed(topic, event)

    parts(node).topics.feed = spy  # type: ignore[method-assign]
    return events


@pytest.mark.parametrize(
    ("written", "drop"),
    [
        (b"\x05\xff\xff\xff\xff\xff", PubsubDrop.FRAME_MALFORMED),
        (encode_uvarint(2**21) + bytes(1000), PubsubDrop.FRAME_OVERSIZED),
    ],
)
async def test_garbage_on_the_stream(written: bytes, drop: PubsubDrop) -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        stream = await attacker.host.new_stream(nodes[0].id, [PROTOCOL_ID])
        await stream.write(written)
        pubsub = nodes[0].pubsub
        assert isinstance(pubsub, ResilientPubsub)
        await eventually(lambda: pubsub.drops[drop] == 1)
        await assert_unharmed(nodes, subscriptions)


@pytest.mark.parametrize("reason", [Reason.FRAME_UNUSABLE, Ordinary.NOT_EPISUB])
async def test_control_that_is_no_frame_or_cannot_be_parsed(reason: Reason) -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        rpc = rpc_pb2.RPC()
        rpc.control.graft.add(topicID=TOPIC)
        if reason is Reason.FRAME_UNUSABLE:
            number = 15370613
            bad = rpc.SerializeToString() + encode_uvarint(number << 3 | 2) + b"\x03\xff\xff\xff"
            rpc = rpc_pb2.RPC.FromString(bad)
        push(attacker, nodes[0], rpc)
        await eventually(lambda: count(nodes[0], reason) == 1)
        await assert_unharmed(nodes, subscriptions)


async def test_tree_messages_from_a_peer_that_is_no_neighbor() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        ihave = m.IHave((m.MessageSummary(b"never published", 1),))
        push_frame(attacker, nodes[0], ihave, m.Graft((b"never published",)), m.Prune())
        await eventually(lambda: count(nodes[0], DropReason.NOT_NEIGHBOR) == 3)
        assert router(nodes[0]).overlay(TOPIC).missing == 0
        await assert_unharmed(nodes, subscriptions)


async def test_a_topic_that_was_not_joined() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        answers = frames_to(attacker)
        asked = m.Neighbor(m.NeighborRole.QUERY, 1)
        push_frame(attacker, nodes[0], m.GetTopics(), topic="unknown")
        push_frame(attacker, nodes[0], asked, m.Prune(), topic="unknown")
        push_frame(attacker, nodes[0], m.GetNodes(), m.Disconnect(), topic="unknown")
        push_frame(attacker, nodes[0], m.Graft(), topic="unknown")
        await eventually(lambda: len(answers) == 3)
        assert count(nodes[0], Reason.TOPIC_NOT_JOINED) == 4
        assert [answer.messages for answer in answers] == [
            (m.Topics(()),),
            (m.Disconnect(alive=False),),
            (m.Disconnect(alive=False),),
        ]
        assert {answer.topic for answer in answers} == {"unknown"}
        assert router(nodes[0]).mesh.keys() == {TOPIC}
        await assert_unharmed(nodes, subscriptions)


async def test_a_repeated_sequence_id() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        rpc = push_frame(attacker, nodes[0], m.Prune())
        push(attacker, nodes[0], rpc)
        push(attacker, nodes[0], rpc)
        await eventually(lambda: count(nodes[0], Reason.REPLAYED) == 2)
        await assert_unharmed(nodes, subscriptions)


async def test_faults_inside_a_frame_cost_only_the_faulty_part() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        answers = frames_to(attacker)
        push_frame(attacker, nodes[0], m.Join(b"not a peer id", 3), m.GetTopics())
        await eventually(lambda: len(answers) == 1)
        assert count(nodes[0], WireFault.BAD_PEER_ID) == 1
        assert answers[0].messages == (m.Topics((TOPIC,)),)
        await assert_unharmed(nodes, subscriptions)


async def test_nobody_can_expel_another() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        victim = nodes[1]
        key = attacker.host.get_private_key()
        victims_key = victim.host.get_private_key()
        long_ago = time.time_ns() - 10**13
        for proof in (
            b"none",
            sign_leave(key, TOPIC, time.time_ns()),
            sign_leave(victims_key, "other", time.time_ns()),
            sign_leave(victims_key, TOPIC, long_ago),
        ):
            push_frame(attacker, nodes[0], m.Leave(victim.id.to_bytes(), 3, proof))
        await eventually(lambda: count(nodes[0], Reason.LEAVE_REFUSED) == 4)
        assert victim.id in router(nodes[0]).mesh[TOPIC]
        await assert_unharmed(nodes, subscriptions)


async def test_a_leave_cannot_be_used_twice() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        leaver = nodes[1]
        events = events_of(nodes[0])
        await leaver.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: leaver.id not in router(nodes[0]).mesh[TOPIC])
        subscriptions[1] = await leaver.pubsub.subscribe(TOPIC)
        await joined(nodes)
        messages = [getattr(event, "message", None) for event in events]
        push_frame(
            attacker, nodes[0], next(leave for leave in messages if isinstance(leave, m.Leave))
        )
        await eventually(lambda: count(nodes[0], Reason.LEAVE_REFUSED) > 0)
        await assert_unharmed(nodes, subscriptions)


async def test_a_forged_payload_does_not_stand_in_the_way_of_the_true_one() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        source = nodes[1]
        true_id = source.pubsub.counter + 1
        forged = rpc_pb2.Message(
            from_id=source.id.to_bytes(),
            seqno=true_id.to_bytes(8, "big"),
            data=b"forged",
            topicIDs=[TOPIC],
            signature=b"x" * 64,
            key=source.host.get_public_key().serialize(),
        )
        events = events_of(nodes[0])
        push_frame(attacker, nodes[0], m.Gossip(b"ignored", 1, forged, 6))
        forger, id = attacker.id.to_bytes(), source.pubsub.get_message_id(forged)
        rejected = PayloadRejected(forger, id, forged=True)
        await eventually(lambda: rejected in events)
        assert PayloadArrived(forger, id, 1) in events[: events.index(rejected)]
        assert router(nodes[0]).overlay(TOPIC).validating == 0
        await source.pubsub.publish(TOPIC, b"true")
        for subscription in subscriptions:
            assert [msg.data for msg in await receive(subscription)] == [b"true"]
        await assert_unharmed(nodes, subscriptions)


@pytest.mark.parametrize("reason", ["padded", "refused"])
async def test_a_copy_that_is_not_accepted_ceases_to_be_in_validation(reason: str) -> None:
    """Whatever the reason, and without a word against its sender where that may be honest."""
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        message = rpc_pb2.Message(
            from_id=nodes[1].id.to_bytes(), seqno=b"12345678", data=b"data", topicIDs=[TOPIC]
        )
        key = nodes[1].host.get_private_key()
        message.signature = key.sign(PREFIX.encode() + message.SerializeToString())
        if reason == "padded":
            message.key = bytes(100)
        else:
            nodes[0].pubsub.set_topic_validator(TOPIC, lambda *_: False, False)
        events = events_of(nodes[0])
        push_frame(attacker, nodes[0], m.Gossip(b"ignored", 1, message, 6))
        id = nodes[0].pubsub.get_message_id(message)
        rejected = PayloadRejected(attacker.id.to_bytes(), id, forged=False)
        await eventually(lambda: rejected in events)
        assert router(nodes[0]).overlay(TOPIC).validating == 0
        nodes[0].pubsub.remove_topic_validator(TOPIC)
        await assert_unharmed(nodes, subscriptions)


async def test_bad_records_are_not_used() -> None:
    async with victims_and_attacker() as (nodes, subscriptions, attacker):
        stranger = b"\x00\x24\x08\x01\x12\x20" + bytes(32)
        framer = parts(attacker).framer
        own = framer.record(attacker.id.to_bytes())
        assert own is not None
        framer.record = lambda peer: own  # type: ignore[method-assign]
        victim = record(attacker, nodes[0])
        parts(attacker).outbound.send(victim, TOPIC, (m.ForwardJoin(stranger, 0),))
        await eventually(lambda: parts(nodes[0]).counts().get("record-wrong-peer", 0) == 1)
        assert parts(nodes[0]).book.record(stranger) is None
        await assert_unharmed(nodes, subscriptions)


async def test_a_blacklisted_peer_is_not_heard_and_no_neighbor() -> None:
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, subscriptions):
        nodes[0].pubsub.add_to_blacklist(nodes[2].id)
        await nodes[2].pubsub.publish(TOPIC, b"from the blacklisted")
        await eventually(lambda: count(nodes[0], Reason.BLACKLISTED) > 0)
        await nodes[1].pubsub.publish(TOPIC, b"from another")
        assert [msg.data for msg in await receive(subscriptions[0])] == [b"from another"]
        assert count(nodes, Reason.ERROR) == 0


async def test_exceptions_stay_in_the_router(caplog: pytest.LogCaptureFixture) -> None:
    """One that reached Pubsub would stop it, or the host."""
    async with overlay_of(2) as (nodes, subscriptions):

        def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        broken = parts(nodes[0])
        healthy = broken.inbound.receive, broken.payloads.publish
        broken.inbound.receive = broken.payloads.publish = fail  # type: ignore[method-assign]
        await nodes[1].pubsub.publish(TOPIC, b"one")
        await nodes[0].pubsub.publish(TOPIC, b"two")
        assert len(await receive(subscriptions[0], 2)) == 2
        await eventually(lambda: count(nodes[0], Reason.ERROR) >= 3)
        failures = [record for record in caplog.records if record.exc_info]
        assert len(failures) == 2
        broken.inbound.receive, broken.payloads.publish = healthy  # type: ignore[method-assign]
        await nodes[1].pubsub.publish(TOPIC, b"three")
        assert [msg.data for msg in await receive(subscriptions[0])] == [b"three"]


@pytest.mark.parametrize("made", ["bytes", "text", "error"])
async def test_message_id_functions_of_all_kinds(made: str) -> None:
    """What doesn't fit a frame is not announced; what is pushed arrives nevertheless."""

    def message_id(message: rpc_pb2.Message) -> Any:
        if made == "error" and message.data == b"trigger":
            raise ValueError("no id")
        made_of = message.from_id + message.seqno
        return made_of.hex() if made == "text" else made_of

    options = {"msg_id_constructor": message_id}
    async with overlay_of(3, pubsub_class=ResilientPubsub, pubsub_options=options) as (
        nodes,
        subscriptions,
    ):
        if made == "error":
            trigger = rpc_pb2.Message(data=b"trigger", topicIDs=[TOPIC], from_id=b"f", seqno=b"s")
            push_frame(nodes[0], nodes[1], m.Gossip(b"", 1, trigger, 7))
            await eventually(lambda: count(nodes[1], Reason.MESSAGE_ID_FAILED) == 1)
        await assert_unharmed(nodes, subscriptions)


async def test_more_roots_than_a_peer_may_send() -> None:
    """A neighbour's made-up ROOTs are cut to what the rate allows, and make no lasting trees."""
    async with victims_and_attacker() as (nodes, subscriptions, _):
        liar, victim = nodes[1], nodes[0]
        made_up = [
            m.TreeRoot(number.to_bytes(8), 2**13, 0.0, bytes(8))
            for number in range(2 * ROOT_RATE.burst)
        ]
        for start in range(0, len(made_up), 100):
            push_frame(liar, victim, m.Root(tuple(made_up[start : start + 100])))
        await eventually(lambda: count(victim, Reason.ROOTS_EXCESS) > 0)
        most = EpisubParams().broadcast.source_trees
        assert len(router(victim).overlay(TOPIC).trees) <= 2 * most
        await assert_unharmed(nodes, subscriptions)
