"""Raw frames on a pubsub stream, for tests that need what no honest node sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from Crypto.PublicKey import RSA
from libp2p.abc import INetStream, IPubsubRouter
from libp2p.crypto.rsa import RSAPublicKey
from libp2p.peer.id import ID
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX
from libp2p.utils import encode_varint_prefixed

from episub_router import ResilientPubsub
from tests.hosts import PATIENCE, Node, connect, running_nodes

TOPIC = "t"
GARBAGE = b"\x04\xff\xff\xff\xff"
"""A frame of five bytes that is no protobuf."""


def flood() -> FloodSub:
    return FloodSub([PROTOCOL_ID])


@asynccontextmanager
async def pair(
    router: Callable[[], IPubsubRouter] = flood,
    pubsub_class: type[Pubsub] = ResilientPubsub,
    **options: Any,
) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes that are connected."""
    async with running_nodes(
        2, router=router, pubsub_class=pubsub_class, pubsub_options=options
    ) as (a, b):
        await connect(a, b)
        yield a, b


def resilient(node: Node) -> ResilientPubsub:
    assert isinstance(node.pubsub, ResilientPubsub)
    return node.pubsub


def subscribing(*topics: str) -> RPC:
    return RPC(subscriptions=[RPC.SubOpts(subscribe=True, topicid=topic) for topic in topics])


async def open_raw(sender: Node, receiver: Node) -> INetStream:
    """The pubsub stream from `sender`: a second one would end the one that its Pubsub has."""
    stream = sender.pubsub.peers.get(receiver.id)
    if stream is not None:
        return stream
    return await open_new(sender, receiver)


async def open_new(sender: Node, receiver: Node) -> INetStream:
    """A new pubsub stream, with which the receiver ends the one before."""
    return await sender.host.new_stream(receiver.id, sender.router.get_protocols())


async def send(stream: INetStream, *rpcs: RPC) -> None:
    for rpc in rpcs:
        await stream.write(encode_varint_prefixed(rpc.SerializeToString()))


class Marks:
    """Frames that tell when the receiver has taken in all the frames before them."""

    def __init__(self, stream: INetStream, sender: Node, receiver: Node) -> None:
        self._stream = stream
        self._sender = sender
        self._receiver = receiver
        self._count = 0

    async def passed(self) -> None:
        """Send a mark and wait until it was read."""
        self._count += 1
        topic = f"mark {self._count}"
        await send(self._stream, subscribing(topic))
        await self._receiver.pubsub.wait_for_subscription(self._sender.id, topic, PATIENCE)


def signed(author: Node, seqno: int, data: bytes) -> Message:
    """A message as `author` would publish it."""
    msg = unsigned(author.id, seqno, data)
    key = author.host.get_private_key()
    msg.signature = key.sign(PUBSUB_SIGNING_PREFIX.encode() + msg.SerializeToString())
    msg.key = key.get_public_key().serialize()
    return msg


def unsigned(author: ID, seqno: int, data: bytes) -> Message:
    """A message with a sequence number that only tests use."""
    return Message(
        from_id=author.to_bytes(), seqno=seqno.to_bytes(8, "big"), data=data, topicIDs=[TOPIC]
    )


def publishing(*messages: Message) -> RPC:
    return RPC(publish=messages)


def altered(msg: Message, change: Callable[[Message], None]) -> Message:
    """A changed copy of `msg`."""
    copy = Message()
    copy.CopyFrom(msg)
    change(copy)
    return copy


def costly_key() -> RSAPublicKey:
    """An RSA key with an exponent of 4,096 bits: a check with it takes 20 ms."""
    modulus = Random(1).getrandbits(4095) | 1 << 4095 | 1
    return RSAPublicKey(RSA.construct((modulus, modulus - 2), consistency_check=False))
