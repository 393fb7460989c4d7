"""Events for any number of readers, each at its own pace."""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, TypeVar

import trio

E = TypeVar("E")

_EVENTS = 1024
"""Events that wait for one reader (chosen)."""
_EARLY = 256
"""Events that wait for the first reader (chosen)."""


class EventFeed(Generic[E]):
    """A reader that falls behind misses events, which is counted in `counts`. What is told before
    there is any, such as on opening, the first one gets."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._readers: dict[trio.MemorySendChannel[E], None] = {}
        self._early: deque[E] | None = deque(maxlen=_EARLY)

    def watch(self) -> trio.MemoryReceiveChannel[E]:
        """All events from now on."""
        send, receive = trio.open_memory_channel[E](_EVENTS)
        self._readers[send] = None
        early, self._early = self._early, None
        for event in early or ():
            send.send_nowait(event)
        return receive

    def tell(self, event: E) -> None:
        if self._early is not None:
            self._early.append(event)
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
