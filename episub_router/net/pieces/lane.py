"""Pieces of large messages that wait for one peer, behind everything else that goes there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.backlog import Sendable
from episub_router.protocol.pieces.cutting import MAX_SIZE
from episub_router.protocol.types import MessageId

MAX_LANE_BYTES = 4 * MAX_SIZE
"""Of pieces for one peer; ours: as much as may be under way. The machine keeps the bytes, so a lane
holds them no longer than their message is kept, or than its peer takes nothing."""

_IN_QUEUE = 2
"""RPCs in Pubsub's queue up to which a piece is added: so many are what others wait for at most."""


class PieceLane:
    """Messages take turns, piece by piece, and each keeps the order of its pieces."""

    __slots__ = ("_waiting", "pushed", "size")

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[str, MessageId], dict[int, Sendable]] = OrderedDict()
        """By index."""
        self.size = 0
        """Bytes that wait."""
        self.pushed = 0
        """How many went into Pubsub's queue so far."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, topic: str, id: MessageId, index: int, item: Sendable) -> bool:
        """Add a piece of the message `id`; False if there is no room. One that waits already, and
        was asked for again, is sent once."""
        if self.size + item.size > MAX_LANE_BYTES:
            return False
        pieces = self._waiting.setdefault((topic, id), {})
        if index not in pieces:
            pieces[index] = item
            self.size += item.size
        return True

    def flush(self, queue: RpcQueue) -> None:
        """Move pieces into `queue`, as long as little else waits there."""
        while self._waiting and len(queue) < _IN_QUEUE:
            key, items = next(iter(self._waiting.items()))
            first = next(iter(items))
            if not items[first].push_to(queue):
                return
            self.pushed += 1
            self.size -= items.pop(first).size
            if items:
                self._waiting.move_to_end(key)
            else:
                del self._waiting[key]

    def forget(self, topic: str, ids: Collection[MessageId] | None = None) -> None:
        """The pieces of these messages of `topic`, or of all, are wanted no more."""
        for key in [k for k in self._waiting if k[0] == topic and (ids is None or k[1] in ids)]:
            self.size -= sum(item.size for item in self._waiting.pop(key).values())

    def clear(self) -> int:
        """Forget everything; how many pieces that were."""
        count = len(self)
        self._waiting.clear()
        self.size = 0
        return count
