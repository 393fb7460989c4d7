"""The sending end of a memory channel that is bounded in bytes, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class BoundedSender(Generic[T]):
    """Has what Pubsub uses of a `trio.MemorySendChannel`; `receive` is the other end, of trio.

    At most `most` items and `most_bytes` bytes wait, but one item alone may be larger. `size_of`
    gives the bytes of an item.
    """

    def __init__(self, most: float, most_bytes: float, size_of: Callable[[T], int]) -> None:
        self._send, self.receive = trio.open_memory_channel[T](most)
        self._most = most
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._sizes: deque[int] = deque()
        """Of the items that wait; brought up to date before each use. Bound: `most`."""
        self._bytes = 0

    def send_nowait(self, item: T) -> None:
        """Raises trio.WouldBlock where there is no room."""
        size = self._size_of(item)
        if self.waiting() and self._bytes + size > self._most_bytes:
            raise trio.WouldBlock
        self._send.send_nowait(item)
        self._sizes.append(size)
        self._bytes += size

    def waiting(self) -> int:
        """Items that wait to be received."""
        used = self._send.statistics().current_buffer_used
        while len(self._sizes) > used:
            self._bytes -= self._sizes.popleft()
        return used

    def fullness(self) -> float:
        """The share that is in use of the scarcer one, items or bytes."""
        return max(self.waiting() / self._most, self._bytes / self._most_bytes)

    async def aclose(self) -> None:
        """As of `trio.MemorySendChannel`."""
        await self._send.aclose()
