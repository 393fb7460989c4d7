"""What waits for a peer goes out in one write.

A write passes Yamux, Noise and the socket; at some hundred messages a second that is most of what a
message costs. A peer that takes messages more slowly than they come gets them in larger writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from libp2p.abc import INetStream
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.pubsub.rpc_queue import RpcQueue
from libp2p.utils.varint import encode_uvarint

from episub_router.pubsub.traffic import kind_of

_MOST = 32 * 1024
"""Bytes in one write, unless one RPC has more; chosen: an eighth of Yamux's first window."""


async def write_all(
    queue: RpcQueue,
    stream: INetStream,
    taken: Callable[[], None] = lambda: None,
    sent: Counter[str] | None = None,
) -> None:
    """Write what is put into `queue`, until it is closed; counts bytes in `sent`. Calls `taken`
    whenever there is room in `queue` again, before the write: what it puts in is there for the next
    one. Raises what `stream` raises."""
    sent = Counter() if sent is None else sent
    while (first := await queue.pop()) is not None:
        batch = bytearray()
        _append(batch, first, sent)
        while len(queue) and len(batch) < _MOST:
            rpc = await queue.pop()
            if rpc is None:
                break
            _append(batch, rpc, sent)
        taken()
        await stream.write(bytes(batch))


def _append(batch: bytearray, rpc: RPC, sent: Counter[str]) -> None:
    data = rpc.SerializeToString()
    sent[kind_of(rpc)] += len(data)
    batch += encode_uvarint(len(data))
    batch += data


def is_broken(stream: INetStream | None) -> bool:
    """Whether the connection of `stream` has closed."""
    return stream is not None and bool(getattr(stream.muxed_conn, "is_closed", False))
