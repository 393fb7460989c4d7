"""Messages whose verification, validation or forwarding raises."""

from __future__ import annotations

import logging

import pytest
import trio
from libp2p.crypto.rsa import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.floodsub import FloodSub
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from trio.testing import wait_all_tasks_blocked

from episub_router import PubsubDrop, PubsubParams, ResilientPubsub
from tests.hosts import Node, connect_all, receive, running_nodes, subscribe_all
from tests.pubsub.frames import (
    TOPIC,
    Marks,
    altered,
    flood,
    open_raw,
    pair,
    publishing,
    resilient,
    send,
    signed,
    unsigned,
)

pytestmark = pytest.mark.hosts

RSA_ID = ID.from_pubkey(create_new_key_pair(bits=1024).public_key)
"""An id that is a hash, so that the key must come with the message."""


def with_garbage_key() -> Message:
    msg = unsigned(RSA_ID, 1, b"bad")
    msg.key = b"\xff\xff\xff"
    msg.signature = b"any"
    return msg


def refuse_bad(_: ID, msg: Message) -> bool:
    if msg.data == b"bad":
        raise LookupError("a bug in a validator")
    return True


class RaisingFlood(FloodSub):
    """A router with a bug in its forwarding."""

    async def publish(self, msg_forwarder: ID, pubsub_msg: Message) -> None:
        if pubsub_msg.data == b"bad":
            raise LookupError("a bug in a router")
        await super().publish(msg_forwarder, pubsub_msg)


def raising() -> FloodSub:
    return RaisingFlood(flood().get_protocols())


async def send_bad(sender: Node, victim: Node, msg: Message) -> None:
    await send(await open_raw(sender, victim), publishing(msg))


async def test_stock_dies_of_a_garbage_key() -> None:
    async with pair(flood, Pubsub) as (attacker, victim):
        await victim.pubsub.subscribe(TOPIC)
        await send_bad(attacker, victim, with_garbage_key())
        await victim.crashed()


async def test_stock_dies_of_a_validator_that_raises() -> None:
    async with pair(flood, Pubsub) as (sender, victim):
        await victim.pubsub.subscribe(TOPIC)
        victim.pubsub.set_topic_validator(TOPIC, refuse_bad, is_async_validator=False)
        await send_bad(sender, victim, signed(sender, 1, b"bad"))
        assert "LookupError" in repr(await victim.crashed())


async def test_stock_dies_of_a_router_that_raises_when_it_forwards() -> None:
    async with pair(raising, Pubsub) as (sender, victim):
        await victim.pubsub.subscribe(TOPIC)
        await send_bad(sender, victim, signed(sender, 1, b"bad"))
        assert "LookupError" in repr(await victim.crashed())


@pytest.mark.parametrize("case", ["garbage key", "validator", "router"])
async def test_the_message_is_dropped_and_the_forwarder_named(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    router = raising if case == "router" else flood
    async with pair(router) as (sender, victim):
        _, at_victim = await subscribe_all([sender, victim], TOPIC)
        if case == "validator":
            victim.pubsub.set_topic_validator(TOPIC, refuse_bad, is_async_validator=False)
        msg = with_garbage_key() if case == "garbage key" else signed(sender, 1, b"bad")
        stream = await open_raw(sender, victim)
        with caplog.at_level(logging.WARNING, "episub_router"):
            await send(stream, publishing(msg, signed(sender, 2, b"good")))
            received = await receive(at_victim, 2 if case == "router" else 1)
        assert b"good" in [msg.data for msg in received]
        reason = {
            "garbage key": PubsubDrop.MESSAGE_PADDED,
            "validator": PubsubDrop.MESSAGE_UNVERIFIABLE,
            "router": PubsubDrop.ROUTER_RAISED,
        }[case]
        assert resilient(victim).drops == {reason: 1}
        assert str(sender.id) in caplog.text
        await sender.pubsub.publish(TOPIC, b"more")
        assert [msg.data for msg in await receive(at_victim)] == [b"more"]


async def test_validation_is_bounded_and_frees_its_places() -> None:
    options = {"params": PubsubParams(max_validating=4)}  # a peer alone gets half
    go = trio.Event()

    async def wait(_: ID, __: Message) -> bool:
        await go.wait()
        return True

    async with pair(**options) as (sender, victim):
        at_victim = await victim.pubsub.subscribe(TOPIC)
        victim.pubsub.set_topic_validator(TOPIC, wait, is_async_validator=True)
        stream = await open_raw(sender, victim)
        marks = Marks(stream, sender, victim)
        await send(stream, publishing(*(signed(sender, n, bytes([n])) for n in range(5))))
        await marks.passed()
        assert resilient(victim).drops == {PubsubDrop.VALIDATION_FULL: 3}
        go.set()
        assert sorted(msg.data for msg in await receive(at_victim, 2)) == [b"\x00", b"\x01"]
        await send(stream, publishing(signed(sender, 9, b"later")))
        assert [msg.data for msg in await receive(at_victim)] == [b"later"]


# Copies that race through validation


class Gate:
    """An async validator that waits for `open` and counts its calls."""

    def __init__(self, *, refuse: bytes = b"", refuse_from: ID | None = None) -> None:
        self.open = trio.Event()
        self.calls = 0
        self._refuse = refuse
        self._refuse_from = refuse_from

    async def __call__(self, forwarder: ID, msg: Message) -> bool:
        self.calls += 1
        await self.open.wait()
        return msg.data != self._refuse and forwarder != self._refuse_from


async def delivered_of_copies(
    pubsub_class: type[Pubsub],
    gate: Gate,
    copies: list[tuple[int, Message]],
    nodes: list[Node],
    *,
    one_by_one: bool = False,
) -> list[bytes]:
    """What the last of `nodes` delivers of messages sent to it by nodes given by index.

    Without `one_by_one` all the copies are in validation before the first one leaves it.
    """
    *senders, victim = nodes
    await connect_all([(sender, victim) for sender in senders])
    at_victim = await victim.pubsub.subscribe(TOPIC)
    victim.pubsub.set_topic_validator(TOPIC, gate, is_async_validator=True)
    marks = []
    for sender in senders:
        stream = await open_raw(sender, victim)
        marks.append((stream, Marks(stream, sender, victim)))
    if one_by_one:
        gate.open.set()
    for index, msg in copies:
        stream, mark = marks[index]
        await send(stream, publishing(msg))
        await mark.passed()
        await wait_all_tasks_blocked()
    gate.open.set()
    await wait_all_tasks_blocked()
    end = signed(senders[0], 99, b"end")
    await send(marks[0][0], publishing(end))
    data: list[bytes] = []
    while b"end" not in data:
        data += [msg.data for msg in await receive(at_victim)]
    return data[:-1]


@pytest.mark.parametrize(
    ("pubsub_class", "deliveries", "calls"), [(Pubsub, 2, 3), (ResilientPubsub, 1, 2)]
)
async def test_copies_that_arrive_during_validation(
    pubsub_class: type[Pubsub], deliveries: int, calls: int
) -> None:
    async with running_nodes(2, router=flood, pubsub_class=pubsub_class) as nodes:
        msg, gate = signed(nodes[0], 1, b"data"), Gate()
        delivered = await delivered_of_copies(pubsub_class, gate, [(0, msg), (0, msg)], nodes)
        assert delivered == [b"data"] * deliveries
        assert gate.calls == calls  # one for the message that ends the test


def falsify(msg: Message) -> None:
    msg.data = b"forged"


@pytest.mark.parametrize("one_by_one", [False, True])
async def test_a_copy_with_a_forged_signature_does_not_hide_the_true_one(one_by_one: bool) -> None:
    async with running_nodes(2, router=flood, pubsub_class=ResilientPubsub) as nodes:
        msg = signed(nodes[0], 1, b"data")
        forged = altered(msg, falsify)
        delivered = await delivered_of_copies(
            ResilientPubsub, Gate(), [(0, forged), (0, msg)], nodes, one_by_one=one_by_one
        )
        assert delivered == [b"data"]


@pytest.mark.parametrize(
    ("pubsub_class", "one_by_one", "expected"),
    [
        (Pubsub, True, []),  # the failure is remembered under the id
        (ResilientPubsub, True, [b"data"]),
        (ResilientPubsub, False, [b"data"]),
    ],
)
async def test_a_refused_copy_with_the_same_id_does_not_hide_the_true_one(
    pubsub_class: type[Pubsub], one_by_one: bool, expected: list[bytes]
) -> None:
    async with running_nodes(
        2, router=flood, pubsub_class=pubsub_class, pubsub_options={"strict_signing": False}
    ) as nodes:
        msg = unsigned(nodes[0].id, 1, b"data")
        forged = altered(msg, falsify)
        delivered = await delivered_of_copies(
            pubsub_class,
            Gate(refuse=b"forged"),
            [(0, forged), (0, msg)],
            nodes,
            one_by_one=one_by_one,
        )
        assert delivered == expected


@pytest.mark.parametrize(("pubsub_class", "deliveries"), [(Pubsub, 2), (ResilientPubsub, 1)])
async def test_one_of_two_valid_messages_with_the_same_id_is_delivered(
    pubsub_class: type[Pubsub], deliveries: int
) -> None:
    async with running_nodes(
        2, router=flood, pubsub_class=pubsub_class, pubsub_options={"strict_signing": False}
    ) as nodes:
        msg, gate = unsigned(nodes[0].id, 1, b"data"), Gate()
        copies = [(0, msg), (0, altered(msg, falsify))]
        delivered = await delivered_of_copies(pubsub_class, gate, copies, nodes)
        assert len(delivered) == deliveries
        assert gate.calls == 3  # neither waited for the other


@pytest.mark.parametrize(
    ("pubsub_class", "one_by_one", "expected"),
    [
        (Pubsub, True, []),
        (ResilientPubsub, True, [b"data"]),
        (ResilientPubsub, False, [b"data"]),
    ],
)
async def test_a_copy_refused_for_its_forwarder_does_not_hide_the_next(
    pubsub_class: type[Pubsub], one_by_one: bool, expected: list[bytes]
) -> None:
    async with running_nodes(3, router=flood, pubsub_class=pubsub_class) as nodes:
        msg = signed(nodes[0], 1, b"data")
        delivered = await delivered_of_copies(
            pubsub_class,
            Gate(refuse_from=nodes[1].id),
            [(1, msg), (0, msg)],
            nodes,
            one_by_one=one_by_one,
        )
        assert delivered == expected


async def test_nothing_is_kept_of_validations_that_ended() -> None:
    async with running_nodes(2, router=flood, pubsub_class=ResilientPubsub) as nodes:
        msg = signed(nodes[0], 1, b"data")
        await delivered_of_copies(ResilientPubsub, Gate(), [(0, msg), (0, msg)], nodes)
        assert not resilient(nodes[1])._copies._locks
        assert resilient(nodes[1]).validating == 0
