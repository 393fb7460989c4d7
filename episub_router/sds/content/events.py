"""Events for any number of readers, each at its own pace."""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

import trio

E = TypeVar("E")

_EVENTS = 1024
"""Events that wait for one reader (ours)."""


class EventFeed(Generic[E]):
    """A reader that falls behind misses events, which is counted in `counts`."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._readers: dict[trio.MemorySendChannel[E], None] = {}

    def watch(self) -> trio.MemoryReceiveChannel[E]:
        """All events from now on."""
        send, receive = trio.open_memory_channel[E](_EVENTS)
        self._readers[send] = None
        return receive

    def tell(self, event: E) -> None:
        for reader in list(self._readers):
            try:
                reader.send_nowait(event)
            except trio.WouldBlock:
                self._counts["event-missed"] += 1
            except trio.BrokenResourceError:
                del self._readers[reader]

    def close(self) -> None:
        """There will be no more."""
        for reader in self._readers:
            reader.close()
