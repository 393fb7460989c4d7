"""What one peer is to be sent and Pubsub's queue has no room for.

Pubsub's queue of a peer holds 32 RPCs, refuses what is beyond, priority or not, and can't be
awaited; and it doesn't exist before the peer is writable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
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
    """Three lanes of bounded length: control, payloads, which follow it, and pieces of large
    messages behind all else. The first two keep their order. Of pieces those of the message of
    which least is left go first."""

    __slots__ = ("_control", "_max_bytes", "_most", "_payloads", "_pieces", "piece_bytes", "size")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        """At most `max_messages` of control, 16 times as many payloads and `max_bytes` of them."""
        self._most = max_messages
        self._max_bytes = max_bytes
        self._control: deque[Sendable] = deque()
        self._payloads: deque[Sendable] = deque()
        self._pieces: PieceTurns[tuple[str, MessageId], Sendable] = PieceTurns()
        self.size = 0
        """Bytes of the payloads that wait."""
        self.piece_bytes = 0
        """The same of pieces."""

    def __len__(self) -> int:
        return self.messages + self.pieces

    @property
    def messages(self) -> int:
        """Frames that wait, without those of pieces."""
        return len(self._control) + len(self._payloads)

    @property
    def pieces(self) -> int:
        return len(self._pieces)

    def send(self, item: Sendable, queue: RpcQueue | None) -> bool:
        """Put `item` into `queue`, or keep it for later; False if there is no room here either."""
        lane = self._control if item.is_control else self._payloads
        if queue is not None and not lane and item.push_to(queue):
            return True
        most = self._most * (1 if item.is_control else PAYLOADS_TO_CONTROL)
        if len(lane) >= most:
            return False
        # A message that is larger than the bound is taken when it is the only one.
        if self.size and self.size + item.size > self._max_bytes:
            return False
        lane.append(item)
        self.size += item.size
        return True

    def add_piece(
        self, topic: str, id: MessageId, index: int, item: Sendable, more: int = 0
    ) -> bool:
        """Keep a piece of the message `id`, of which `more` will follow; False if there is no room.
        One that waits already, and was asked for again, is sent once."""
        if self.piece_bytes + item.size > MAX_LANE_BYTES:
            return False
        if self._pieces.put((topic, id), index, item, more):
            self.piece_bytes += item.size
        return True

    def flush(self, queue: RpcQueue) -> None:
        """Move what waits into `queue`, as far as there is room; pieces as long as little else is
        in there."""
        for lane in (self._control, self._payloads):
            while lane and lane[0].push_to(queue):
                self.size -= lane.popleft().size
        while self._pieces and not self.messages and len(queue) < _IN_QUEUE:
            if not self._pieces.first().push_to(queue):
                return
            self.piece_bytes -= self._pieces.take().size

    def forget_pieces(self, topic: str, ids: Collection[MessageId] | None = None) -> list[Sendable]:
        """The pieces of these messages of `topic`, or of all, are wanted no more; returns them."""
        keys = self._pieces.messages()
        gone = [key for key in keys if key[0] == topic and (ids is None or key[1] in ids)]
        forgotten = self._pieces.forget(gone)
        self.piece_bytes -= sum(item.size for item in forgotten)
        return forgotten

    def keep_only(self, is_wanted: Callable[[Sendable], bool]) -> None:
        """Forget the control frames and payloads that aren't wanted any more."""
        for lane in (self._control, self._payloads):
            kept = [item for item in lane if is_wanted(item)]
            lane.clear()
            lane.extend(kept)
        self.size = sum(item.size for lane in (self._control, self._payloads) for item in lane)

    def clear(self) -> int:
        """Forget everything; how many that were."""
        count = len(self)
        for lane in (self._control, self._payloads, self._pieces):
            lane.clear()
        self.size = self.piece_bytes = 0
        return count
