"""go-libp2p-pubsub since v0.17 resets a stream whose RPC has more than 512 KiB beside payloads, and
counts fields that it doesn't know, such as ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from libp2p import new_host
from libp2p.abc import INetStream
from libp2p.custom_types import TProtocol
from libp2p.network.stream.exceptions import StreamError
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.utils import encode_varint_prefixed
from multiaddr import Multiaddr

from episub_router.protocol.messages import MAX_IDS, IHave, Message, MessageSummary, Nodes
from episub_router.wire import Frame, encode_frame
from episub_router.wire.limits import DEFAULT_LIMITS
from interop.harness.lab import Lab
from interop.harness.peer import Peer

GO_S_LIMIT = 512 << 10
ID = 50
"""Bytes of a message id: an author's and a sequence number."""
RESET = 30.0
"""Seconds within which a reset has to come."""


def largest_frame() -> RPC:
    """As much as one frame takes: lists of ids, and the records of as many peers as go along."""
    limits = DEFAULT_LIMITS
    ids = IHave(tuple(MessageSummary(bytes([n]) * ID, 1) for n in range(MAX_IDS)))
    peers = Nodes(tuple(b"\x00\x24" + bytes([n]) * 36 for n in range(limits.max_peers)), 0)
    messages: list[Message] = [peers, *[ids] * (limits.max_messages - 1)]
    frame = Frame("t" * limits.max_topic_bytes, 2**60, tuple(messages))
    return encode_frame(frame, lambda peer: bytes(limits.max_record_bytes))


def subscription(topic: str) -> RPC:
    return RPC(subscriptions=[RPC.SubOpts(subscribe=True, topicid=topic)])


@asynccontextmanager
async def stream_to(go: Peer) -> AsyncIterator[tuple[str, INetStream]]:
    host = new_host(muxer_preference="YAMUX")
    async with host.run([Multiaddr("/ip4/127.0.0.1/tcp/0")]):
        info = info_from_p2p_addr(Multiaddr(go.addresses[0]))
        await host.connect(info)
        yield (
            str(host.get_id()),
            await host.new_stream(info.peer_id, [TProtocol("/meshsub/1.2.0")]),
        )


def test_our_largest_frame_is_below_the_limit() -> None:
    assert GO_S_LIMIT // 2 < largest_frame().ByteSize() < GO_S_LIMIT


@pytest.mark.peers("go")
async def test_go_takes_our_largest_frame(lab: Lab) -> None:
    go = await lab.start("go", topics=["t"])
    async with stream_to(go) as (me, stream):
        for rpc in (largest_frame(), subscription("behind")):
            await stream.write(encode_varint_prefixed(rpc.SerializeToString()))
        await go.event("peer_subscribed", peer=me, topic="behind")


@pytest.mark.peers("go")
async def test_go_resets_what_is_larger(lab: Lab) -> None:
    go = await lab.start("go", topics=["t"])
    async with stream_to(go) as (_, stream):
        rpc = largest_frame()
        rpc.MergeFrom(subscription("t" * GO_S_LIMIT))
        await stream.write(encode_varint_prefixed(rpc.SerializeToString()))
        with trio.fail_after(RESET):
            assert await ends(stream)


async def ends(stream: INetStream) -> bool:
    """Wait for the end of what the other side sends."""
    try:
        while await stream.read(1024):
            pass
    except StreamError:
        pass
    return True
