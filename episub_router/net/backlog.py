"""What one peer is to be sent and Pubsub's queue has no room for.

Pubsub's queue of a peer holds 32 RPCs, refuses what is beyond, priority or not, and can't be
awaited; and it doesn't exist before the peer is writable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from libp2p.pubsub.rpc_queue import RpcQueue

PAYLOADS_TO_CONTROL = 16
"""Payloads for each control frame that may wait; chosen: their bytes are what bounds them."""


class Sendable(Protocol):
    """A frame or an RPC on its way to one peer."""

    @property
    def is_control(self) -> bool:
        """Control goes before payloads."""

    @property
    def size(self) -> int:
        """Bytes that count against the bound of the backlog."""

    def push_to(self, queue: RpcQueue) -> bool:
        """Put it into `queue`; False if there is no room. What can never be sent counts as put."""


class Backlog:
    """Two lanes of bounded length: control, and payloads, which follow it. Each keeps its order."""

    __slots__ = ("_control", "_max_bytes", "_max_messages", "_payloads", "_size", "pushed")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        """At most `max_messages` of control, 16 times as many payloads and `max_bytes` of them."""
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._control: deque[Sendable] = deque()
        self._payloads: deque[Sendable] = deque()
        self._size = 0
        self.pushed = 0
        """How many went into Pubsub's queue so far."""

    def __len__(self) -> int:
        return len(self._control) + len(self._payloads)

    @property
    def size(self) -> int:
        """Bytes of the payloads that wait."""
        return self._size

    def send(self, item: Sendable, queue: RpcQueue | None) -> bool:
        """Put `item` into `queue`, or keep it for later; False if there is no room here either."""
        lane = self._control if item.is_control else self._payloads
        if queue is not None and not lane and item.push_to(queue):
            self.pushed += 1
            return True
        most = self._max_messages * (1 if item.is_control else PAYLOADS_TO_CONTROL)
        if len(lane) >= most:
            return False
        # A message that is larger than the bound is taken when it is the only one.
        if self._size and self._size + item.size > self._max_bytes:
            return False
        lane.append(item)
        self._size += item.size
        return True

    def flush(self, queue: RpcQueue) -> None:
        """Move what waits into `queue`, as far as there is room."""
        for lane in (self._control, self._payloads):
            while lane and lane[0].push_to(queue):
                self.pushed += 1
                self._size -= lane.popleft().size

    def clear(self) -> int:
        """Forget everything; how many that were."""
        count = len(self)
        self._control.clear()
        self._payloads.clear()
        self._size = 0
        return count

    def keep_only(self, is_wanted: Callable[[Sendable], bool]) -> None:
        """Forget what isn't wanted any more."""
        for lane in (self._control, self._payloads):
            kept = [item for item in lane if is_wanted(item)]
            lane.clear()
            lane.extend(kept)
        self._size = sum(item.size for item in self)

    def __iter__(self) -> Iterator[Sendable]:
        yield from self._control
        yield from self._payloads
