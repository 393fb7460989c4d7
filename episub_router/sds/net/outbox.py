"""What is to be published, in order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.sds.net.origin import proof_of, sign
from episub_router.sds.protocol.effects import Purpose
from episub_router.sds.protocol.message import MessageId

_LIMIT = 1024
"""Messages that may wait to be published; further ones are dropped, and resent later."""


class PublishQueue:
    """`published` is called for each message that the router has taken."""

    def __init__(
        self,
        pubsub: Pubsub,
        topic: str,
        counts: Counter[str],
        published: Callable[[MessageId], None],
    ) -> None:
        self._pubsub = pubsub
        self._topic = topic
        self._counts = counts
        self._published = published
        self._queue: deque[tuple[MessageId, bytes, Purpose]] = deque()
        self._posted = trio.Event()
        self._empty = trio.Event()
        self._empty.set()
        self._signed: dict[bytes, rpc_pb2.Message] = {}

    def prove(self, raw: bytes) -> bytes:
        """Sign a message of ours before anybody sees it; the proof to keep with it."""
        message = self._signed[raw] = sign(self._pubsub, self._topic, raw)
        return proof_of(message)

    def post(self, message_id: MessageId, raw: bytes, purpose: Purpose) -> bool:
        """Queue a message. False where there is no room."""
        if len(self._queue) >= _LIMIT:
            self._signed.pop(raw, None)
            self._counts["outbox-full"] += 1  # resending repairs it
            return False
        self._queue.append((message_id, raw, purpose))
        self._posted.set()
        self._empty = trio.Event()
        return True

    def forget(self) -> None:
        """What was signed and not posted won't be."""
        queued = {raw for _, raw, _ in self._queue}
        self._signed = {raw: m for raw, m in self._signed.items() if raw in queued}

    async def flush(self) -> None:
        """Wait until all is published."""
        await self._empty.wait()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._posted.wait()
            self._posted = trio.Event()
            while self._queue:
                await self._publish(*self._queue[0])
                self._queue.popleft()
            self._empty.set()

    async def _publish(self, message_id: MessageId, raw: bytes, purpose: Purpose) -> None:
        self._counts[f"published-{purpose.value}"] += 1
        signed = self._signed.pop(raw, None)
        try:
            if signed is not None:
                await self._pubsub.push_msg(self._pubsub.my_id, signed)
            else:
                await self._pubsub.publish(self._topic, raw)
        except Exception:  # whatever the router raises: resending repairs it
            self._counts["publish-failed"] += 1
        else:
            self._published(message_id)
