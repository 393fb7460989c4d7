"""A subscription whose reader can see where messages were dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import trio
from libp2p.custom_types import UnsubscribeFn
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.subscription import TrioSubscriptionAPI

from episub_router.util.bounded_channel import BoundedSender
from episub_router.util.message_size import message_size

BUFFER_BYTES: Final = 64 * 2**20
"""Bytes of messages that wait for a reader. Chosen: four of the largest messages."""


@dataclass(frozen=True, slots=True)
class Lagged:
    """The reader was behind: `count` messages that came here were dropped."""

    count: int


Item: TypeAlias = Message | Lagged


class Subscription(TrioSubscriptionAPI):
    """py-libp2p's subscription, with a buffer of `size` messages and `BUFFER_BYTES`.

    `get` and iteration give messages alone, as py-libp2p's do; `with_gaps` gives a `Lagged` where
    some are missing.
    """

    def __init__(self, size: int, unsubscribe_fn: UnsubscribeFn) -> None:
        self.send_channel = BoundedSender[Message](size, BUFFER_BYTES, message_size)
        super().__init__(self.send_channel.receive, unsubscribe_fn)
        self._put = 0
        self._taken = 0
        self._gaps: deque[tuple[int, int]] = deque()
        """How many messages came before each gap, and its length. Bound: one for each place
        between two messages of the buffer."""

    def put(self, message: Message) -> bool:
        """Hand `message` to the reader; False if there is no room."""
        try:
            self.send_channel.send_nowait(message)
        except (trio.WouldBlock, trio.BrokenResourceError):
            missing = self._gaps.pop()[1] if self._gaps and self._gaps[-1][0] == self._put else 0
            self._gaps.append((self._put, missing + 1))
            return False
        self._put += 1
        return True

    async def get(self) -> Message:
        message = await self.receive_channel.receive()
        self._taken += 1
        while self._gaps and self._gaps[0][0] < self._taken:
            self._gaps.popleft()
        return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        try:
            while True:
                yield await self.get()
        except trio.EndOfChannel:
            return

    async def take(self, most: int) -> list[Item]:
        """Wait for the next message or gap, and give what is there then, at most `most` items; none
        once the topic is left and all is read."""
        items: list[Item] = []
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while len(items) < most:
                if (gap := self._take_gap()) is not None:
                    items.append(gap)
                elif not items:
                    items.append(await self.get())
                else:
                    items.append(self.receive_channel.receive_nowait())
                    self._taken += 1
        return items

    async def with_gaps(self) -> AsyncIterator[Item]:
        """The messages, and a `Lagged` where some were dropped before the next one."""
        while items := await self.take(1):
            yield items[0]

    def _take_gap(self) -> Lagged | None:
        if self._gaps and self._gaps[0][0] == self._taken:
            return Lagged(self._gaps.popleft()[1])
        return None
