"""What waits for a peer goes out in one write.

A write passes Yamux, Noise and the socket; at some hundred messages a second that is most of what a
message costs. A peer that takes messages more slowly than they come gets them in larger writes.
"""

from __future__ import annotations

from collections import Counter

from libp2p.abc import INetStream
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.pubsub.rpc_queue import RpcQueue
from libp2p.utils.varint import encode_uvarint

from episub_router.pubsub.traffic import kind_of

_MOST = 32 * 1024
"""Bytes in one write, unless one RPC has more; chosen: an eighth of Yamux's first window."""


async def write_all(
    queue: RpcQueue, stream: INetStream, sent: Counter[str], batch: list[RPC]
) -> None:
    """Write what is put into `queue`, until it is closed; counts bytes in `sent`. Raises what
    `stream` raises; `batch` then has what was being written."""
    while (rpc := await queue.pop()) is not None:
        data = bytearray()
        while rpc is not None:
            batch.append(rpc)
            encoded = rpc.SerializeToString()
            sent[kind_of(rpc)] += len(encoded)
            data += encode_uvarint(len(encoded)) + encoded
            rpc = await queue.pop() if len(queue) and len(data) < _MOST else None
        await stream.write(bytes(data))
        batch.clear()


def without_state(rpc: RPC) -> RPC:
    """What of `rpc` can go out on a later stream: messages and the Episub frame. A stream's hello
    has the subscriptions of its time, and GossipSub's meshes end with a stream."""
    kept = RPC()
    kept.CopyFrom(rpc)
    for name in ("subscriptions", "senderRecord", "control"):
        kept.ClearField(name)
    if kept.ByteSize() and rpc.HasField("control"):
        kept.control.SetInParent()  # an Episub frame needs it
    return kept


def is_broken(stream: INetStream | None) -> bool:
    """Whether the connection of `stream` has closed."""
    return stream is not None and bool(getattr(stream.muxed_conn, "is_closed", False))
