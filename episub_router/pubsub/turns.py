"""Equal copies of a message are validated one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import blake2b

import trio
from libp2p.pubsub.pb.rpc_pb2 import Message


class CopyTurns:
    """Lets equal copies of a message into validation one after the other.

    A copy with the same id and other content doesn't wait: a forged one, which a slow validator
    is busy with, must not delay the true one. Bounded by the messages in validation.
    """

    def __init__(self) -> None:
        self._locks: dict[bytes, trio.Lock] = {}

    @asynccontextmanager
    async def turn(self, message: Message) -> AsyncIterator[None]:
        """Wait for the turn of this copy of `message`."""
        key = blake2b(message.SerializeToString(deterministic=True), digest_size=32).digest()
        lock = self._locks.setdefault(key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
