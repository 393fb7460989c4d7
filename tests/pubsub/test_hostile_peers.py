"""What a hostile member can write on its stream, and what that costs its receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import thread_time
from typing import Any

import pytest
import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.validators import signature_validator
from libp2p.utils import encode_varint_prefixed
from libp2p.utils.varint import encode_uvarint

from episub_router import PubsubDrop, PubsubParams, ResilientPubsub
from episub_router.util.params import Rate
from tests.hosts import Node, connect_all, eventually, receive, running_nodes, subscribe_all
from tests.pubsub.frames import (
    TOPIC,
    Marks,
    altered,
    costly_key,
    flood,
    open_new,
    open_raw,
    publishing,
    resilient,
    send,
    signed,
    unsigned,
)

pytestmark = pytest.mark.hosts

MEGABYTE = 10**6


@asynccontextmanager
async def attacked(**params: Any) -> AsyncIterator[tuple[Node, Node, Node]]:
    """A hostile member, its victim, and an honest neighbour of the victim."""
    options = {"params": PubsubParams(**params)}
    async with running_nodes(
        3, router=flood, pubsub_class=ResilientPubsub, pubsub_options=options
    ) as (attacker, victim, honest):
        await connect_all([(attacker, victim), (honest, victim)])
        await subscribe_all([victim, honest], TOPIC)
        yield attacker, victim, honest


async def delivers(victim: Node, honest: Node, data: bytes = b"honest") -> None:
    """A message of `honest` is the next one that `victim` delivers."""
    await honest.pubsub.publish(TOPIC, data)
    [message] = await receive(victim.pubsub.subscribed_topics_receive[TOPIC])
    assert message.data == data


async def test_a_frame_amounts_to_its_last_word_on_each_topic() -> None:
    async with attacked() as (attacker, victim, _):
        stream = await open_raw(attacker, victim)
        options = [RPC.SubOpts(subscribe=n % 2 == 0, topicid="a") for n in range(4000)]
        options += [RPC.SubOpts(subscribe=n % 2 == 1, topicid="b") for n in range(1000)]
        started = thread_time()
        await send(stream, RPC(subscriptions=options))
        await victim.pubsub.wait_for_subscription(attacker.id, "b")
        assert thread_time() - started < 1  # 9.9 s, one by one
        assert attacker.id not in victim.pubsub.peer_topics.get("a", ())


async def test_subscriptions_change_at_a_bounded_rate() -> None:
    async with attacked(subscription_changes=Rate(1, 20)) as (attacker, victim, honest):
        stream = await open_raw(attacker, victim)
        for n in range(100):
            await send(stream, RPC(subscriptions=[RPC.SubOpts(subscribe=n % 2 == 0, topicid="a")]))
        await eventually(lambda: PubsubDrop.SUBSCRIPTIONS_TOO_FAST in resilient(victim).drops)
        await delivers(victim, honest)


def pad_key(message: Message) -> None:
    message.key = message.key + bytes(500_000)


def pad_with_unknown_fields(message: Message) -> None:
    unknown = encode_uvarint(99 << 3 | 2) + encode_varint_prefixed(bytes(500_000))
    message.MergeFromString(unknown)


def pad_signature(message: Message) -> None:
    message.signature = message.signature + bytes(500_000)


@pytest.mark.parametrize("pad", [pad_key, pad_with_unknown_fields, pad_signature])
async def test_what_a_forwarder_adds_to_a_message_is_not_passed_on(
    pad: Callable[[Message], None],
) -> None:
    async with attacked() as (attacker, victim, honest):
        message = signed(honest, 1, b"data")
        padded = altered(message, pad)
        if pad is not pad_signature:
            assert signature_validator(padded)
        stream = await open_raw(attacker, victim)
        await send(stream, publishing(padded), publishing(message))
        [received] = await receive(victim.pubsub.subscribed_topics_receive[TOPIC])
        assert received == message
        assert resilient(victim).drops == {PubsubDrop.MESSAGE_PADDED: 1}


@pytest.mark.parametrize(
    "topics", [[TOPIC] * 3000, [TOPIC, *map(str, range(3000))]], ids=["one", "many"]
)
async def test_a_message_with_many_topics_is_refused(topics: list[str]) -> None:
    async with attacked() as (attacker, victim, honest):
        message = Message(from_id=attacker.id.to_bytes(), seqno=b"1", topicIDs=topics)
        stream = await open_raw(attacker, victim)
        await send(stream, publishing(message))
        await eventually(lambda: resilient(victim).drops == {PubsubDrop.TOPICS_REFUSED: 1})
        await delivers(victim, honest)


async def test_keys_that_are_costly_to_verify_with_are_refused() -> None:
    key = costly_key()
    async with attacked() as (attacker, victim, honest):
        stream = await open_raw(attacker, victim)
        message = unsigned(ID.from_pubkey(key), 1, b"costly")
        message.key, message.signature = key.serialize(), bytes(512)
        await send(stream, publishing(message))
        await eventually(lambda: PubsubDrop.KEY_COSTLY in resilient(victim).drops)
        await delivers(victim, honest)


async def test_one_stream_is_read_of_each_peer() -> None:
    async with attacked() as (attacker, victim, honest):
        streams = [await open_new(attacker, victim) for _ in range(20)]
        for stream in streams:
            with trio.move_on_after(5):
                try:
                    await stream.write(encode_uvarint(2**20) + bytes(200_000))
                except Exception:  # it was reset before
                    continue
        await eventually(lambda: resilient(victim).drops[PubsubDrop.STREAM_SUPERSEDED] >= 20)
        await delivers(victim, honest)


async def test_a_frame_has_to_end_in_time() -> None:
    async with attacked(frame_timeout=0.2) as (attacker, victim, honest):
        stream = await open_raw(attacker, victim)
        await stream.write(encode_uvarint(1000) + b"the beginning")
        await eventually(lambda: resilient(victim).drops == {PubsubDrop.FRAME_OVERDUE: 1})
        await delivers(victim, honest)


async def test_frames_that_do_not_end_have_bounded_room() -> None:
    async with attacked(max_unfinished_bytes=100_000) as (attacker, victim, honest):
        stream = await open_raw(attacker, victim)
        await stream.write(encode_uvarint(2**20) + bytes(150_000))
        await eventually(lambda: resilient(victim).drops == {PubsubDrop.FRAME_OVERDUE: 1})
        await delivers(victim, honest)


async def test_a_flood_of_slow_messages_keeps_nobody_elses_waiting() -> None:
    """The validator holds the attacker's messages for as long as it likes."""
    async with attacked() as (attacker, victim, honest):

        async def validate(forwarder: ID, _: Message) -> bool:
            if forwarder == attacker.id:
                await trio.sleep_forever()
            return True

        victim.pubsub.validation_timeout = 1000
        victim.pubsub.set_topic_validator(TOPIC, validate, is_async_validator=True)
        stream = await open_raw(attacker, victim)
        marks = Marks(stream, attacker, victim)
        slow = [signed(attacker, n, b"slow") for n in range(1500)]
        await send(stream, publishing(*slow))
        await marks.passed()
        assert resilient(victim).drops[PubsubDrop.VALIDATION_FULL] == 1500 - 512
        for n in range(10):
            await delivers(victim, honest, b"%d" % n)


async def test_a_flood_of_large_messages_is_bounded_in_bytes() -> None:
    async with attacked(max_validating_bytes=1_000_000) as (attacker, victim, honest):
        go = trio.Event()

        async def validate(forwarder: ID, _: Message) -> bool:
            if forwarder == attacker.id:
                await go.wait()
            return True

        victim.pubsub.set_topic_validator(TOPIC, validate, is_async_validator=True)
        stream = await open_raw(attacker, victim)
        marks = Marks(stream, attacker, victim)
        for n in range(20):
            await send(stream, publishing(signed(attacker, n, bytes(90_000))))
        await marks.passed()
        assert resilient(victim).validating == 5  # 450 kB, which leaves 550 kB
        await delivers(victim, honest)
        go.set()


@pytest.mark.parametrize("fault", ["empty frames", "bad signatures"])
async def test_a_peer_whose_faults_have_cost_too_much_loses_its_stream(fault: str) -> None:
    async with attacked(faults=Rate(0.1, 1)) as (attacker, victim, honest):
        stream = await open_raw(attacker, victim)
        forged = unsigned(honest.id, 1, b"forged")
        forged.signature = bytes(64)
        frame = RPC() if fault == "empty frames" else publishing(forged)

        async def write() -> None:
            while True:
                await send(stream, frame)

        async with trio.open_nursery() as nursery:

            async def until_reset() -> None:
                try:
                    await write()
                except Exception:  # nearly any: the stream is reset while it is written to
                    return

            nursery.start_soon(until_reset)
            await eventually(lambda: PubsubDrop.FRAME_UNAFFORDABLE in resilient(victim).drops)
            nursery.cancel_scope.cancel()
        await delivers(victim, honest)


async def test_an_honest_peer_that_costs_too_much_waits_and_loses_nothing() -> None:
    """As where the machine is fifty times slower: each message comes twice."""
    async with attacked(work=Rate(10, 1)) as (attacker, victim, _):
        stream = await open_raw(attacker, victim)
        messages = [signed(attacker, n, b"%d" % n) for n in range(60)]
        started = trio.current_time()
        for message in messages:
            await send(stream, publishing(message), publishing(message))
        subscription = victim.pubsub.subscribed_topics_receive[TOPIC]
        for message in messages:
            assert await receive(subscription) == [message]
        assert not resilient(victim).drops
        # 50 us are charged for each duplicate at least, and a second pays for 10 ms.
        assert trio.current_time() - started > 59 * 50e-6 / 0.01 - 0.001 / 0.01
