"""An inbound stream without a network under it, so that only its reader's work is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from libp2p.peer.id import ID

from episub_router import ResilientPubsub
from tests.hosts import Node, eventually


class RawStream:
    """An inbound stream of a peer that has written `data` and nothing more."""

    metric_send_channel = None

    def __init__(self, peer: ID, data: bytes) -> None:
        self.muxed_conn = SimpleNamespace(peer_id=peer)
        self._data = data
        self._at = 0
        self.was_read = trio.Event()

    async def read(self, n: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        chunk = self._data[self._at : self._at + (n or len(self._data))]
        self._at += len(chunk)
        if not chunk:
            self.was_read.set()
            await trio.sleep_forever()
        return chunk

    async def reset(self) -> None:
        """Nothing: the hostile peer's own Pubsub opens its stream again, and this one goes on."""


async def suffer(victim: Node, hostile: ID, data: bytes) -> None:
    """Let `victim` read `data`, and finish what it makes of it."""
    pubsub = victim.pubsub
    assert isinstance(pubsub, ResilientPubsub)
    stream: Any = RawStream(hostile, data)

    async def read() -> None:
        await pubsub.stream_handler(stream)
        stream.was_read.set()  # a frame ended it

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await stream.was_read.wait()
        await eventually(lambda: pubsub.validating == 0)
        nursery.cancel_scope.cancel()
