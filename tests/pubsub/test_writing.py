"""What waits for a peer goes out together, in its order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import trio
import trio.testing
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.rpc_queue import RpcQueue
from libp2p.utils.varint import decode_varint_with_size

from episub_router.protocol.messages import Gossip
from episub_router.pubsub.writing import without_state, write_all
from episub_router.wire import Frame, encode_frame


class Stream:
    """Keeps each write, and lets the first one take as long as is wanted."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []
        self.free = trio.Event()

    async def write(self, data: bytes) -> None:
        self.writes.append([len(rpc.publish[0].data) for rpc in split(data)])
        await self.free.wait()


def split(data: bytes) -> list[RPC]:
    found = []
    while data:
        size, start = decode_varint_with_size(data)
        found.append(RPC.FromString(data[start : start + size]))
        data = data[start + size :]
    return found


def rpc(size: int) -> RPC:
    return RPC(publish=[Message(data=bytes(size))])


async def test_what_came_during_a_write_goes_out_in_the_next() -> None:
    queue, stream = RpcQueue(), Stream()
    written: Any = stream
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write_all, queue, written, Counter[str](), [])
        queue.push(rpc(1))
        await trio.testing.wait_all_tasks_blocked()
        for size in (2, 3, 40_000, 5, 6):
            queue.push(rpc(size))
        stream.free.set()
        await trio.testing.wait_all_tasks_blocked()
        queue.close()
    assert stream.writes == [[1], [2, 3, 40_000], [5, 6]]


async def test_a_later_stream_repeats_messages_and_episub_frames_and_no_state() -> None:
    frame = encode_frame(Frame("t", 7, (Gossip(b"id", 1, Message(data=b"x")),)), lambda _: None)
    gossipsub = RPC(senderRecord=b"r", subscriptions=[RPC.SubOpts(subscribe=True, topicid="t")])
    gossipsub.control.graft.add(topicID="t")
    assert without_state(frame) == frame
    assert not without_state(gossipsub).ByteSize()
    gossipsub.MergeFrom(rpc(3))
    assert without_state(gossipsub).publish == rpc(3).publish
