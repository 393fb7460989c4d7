"""What one peer is to be sent and Pubsub's queue has no room for.

Pubsub's queue of a peer holds 32 RPCs, refuses what is beyond, priority or not, and can't be
awaited; and it doesn't exist before the peer is writable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.protocol.pieces.cutting import MAX_SIZE
from episub_router.protocol.types import MessageId
from episub_router.util.turns import PieceTurns

PAYLOADS_TO_CONTROL = 16
"""Payloads for each control frame that may wait; chosen: their bytes are what bounds them."""

MAX_LANE_BYTES = 4 * MAX_SIZE
"""Of pieces for one peer; chosen: as much as may be under way. The machine keeps the bytes, so a
lane holds them no longer than their message is kept, or than its peer takes nothing."""

_IN_QUEUE = 2
"""RPCs in Pubsub's queue up to which a piece is added: so many are what others wait for at most."""


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


class PieceLane:
    """Pieces of large messages, which wait behind all else. The message of which least is left goes
    first, and each keeps the order of its pieces."""

    __slots__ = ("_waiting", "pushed", "size")

    def __init__(self) -> None:
        self._waiting: PieceTurns[tuple[str, MessageId], Sendable] = PieceTurns()
        self.size = 0
        """Bytes that wait."""
        self.pushed = 0
        """How many went into Pubsub's queue so far."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, topic: str, id: MessageId, index: int, item: Sendable, more: int = 0) -> bool:
        """Add a piece of the message `id`, of which `more` will follow; False if there is no room.
        One that waits already, and was asked for again, is sent once."""
        if self.size + item.size > MAX_LANE_BYTES:
            return False
        if self._waiting.put((topic, id), index, item, more):
            self.size += item.size
        return True

    def flush(self, queue: RpcQueue) -> None:
        """Move pieces into `queue`, as long as little else waits there."""
        while self._waiting and len(queue) < _IN_QUEUE:
            if not self._waiting.first().push_to(queue):
                return
            self.size -= self._waiting.take().size
            self.pushed += 1

    def forget(self, topic: str, ids: Collection[MessageId] | None = None) -> list[Sendable]:
        """The pieces of these messages of `topic`, or of all, are wanted no more; returns them."""
        keys = self._waiting.messages()
        gone = [key for key in keys if key[0] == topic and (ids is None or key[1] in ids)]
        forgotten = self._waiting.forget(gone)
        self.size -= sum(item.size for item in forgotten)
        return forgotten

    def clear(self) -> int:
        """Forget everything; how many pieces that were."""
        count = len(self)
        self._waiting.clear()
        self.size = 0
        return count
