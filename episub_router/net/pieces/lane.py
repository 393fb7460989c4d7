"""Pieces of large messages that wait for one peer, behind everything else that goes there."""

from __future__ import annotations

from collections.abc import Collection

from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.backlog import Sendable
from episub_router.protocol.pieces.cutting import MAX_SIZE
from episub_router.protocol.pieces.turns import PieceTurns
from episub_router.protocol.types import MessageId

MAX_LANE_BYTES = 4 * MAX_SIZE
"""Of pieces for one peer; chosen: as much as may be under way. The machine keeps the bytes, so a
lane holds them no longer than their message is kept, or than its peer takes nothing."""

_IN_QUEUE = 2
"""RPCs in Pubsub's queue up to which a piece is added: so many are what others wait for at most."""


class PieceLane:
    """The message of which least is left goes first, and each keeps the order of its pieces."""

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

    def forget(self, topic: str, ids: Collection[MessageId] | None = None) -> None:
        """The pieces of these messages of `topic`, or of all, are wanted no more."""
        keys = self._waiting.messages()
        gone = [key for key in keys if key[0] == topic and (ids is None or key[1] in ids)]
        self.size -= sum(item.size for item in self._waiting.forget(gone))

    def clear(self) -> int:
        """Forget everything; how many pieces that were."""
        count = len(self)
        self._waiting.clear()
        self.size = 0
        return count
