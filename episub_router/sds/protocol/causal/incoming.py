"""The incoming buffer: messages that wait for their causal dependencies (S05)."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.protocol.types import Time
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.presence import ROUNDING, Presence
from episub_router.sds.protocol.shares import Shares
from episub_router.sds.protocol.timers import Timers

_DOUBTFUL = 10
"""Messages that are asked for again at once for the sake of one that is missing (ours)."""


@dataclass(slots=True)
class Waiting:
    """A buffered message, the ids that it waits for and those that were given up.

    `reviews`: how often a peer was asked for the message itself, which may have two versions.
    """

    message: Message
    raw: bytes
    origin: bytes
    unmet: dict[MessageId, None]
    lost: list[MessageId]
    reviews: int = 0


class Incoming:
    """Bounded in messages, bytes, and in what one sender may take of either."""

    def __init__(self, params: SdsParams, presence: Presence) -> None:
        self._params = params
        self._presence = presence
        self._waiting: dict[MessageId, Waiting] = {}
        self._children: dict[MessageId, dict[MessageId, None]] = {}
        self._count: Shares[SenderId] = Shares()
        self._bytes: Shares[SenderId] = Shares()
        self._size = 0
        self._overdue: Timers[MessageId] = Timers()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._waiting

    def get(self, message_id: MessageId) -> Waiting | None:
        return self._waiting.get(message_id)

    def next(self) -> Time:
        return self._presence.when(self._overdue.next())

    def needs(self, dependency: MessageId) -> bool:
        """Whether a buffered message waits for this id."""
        return dependency in self._children

    def doubtful(self, dependency: MessageId, limit: int) -> list[MessageId]:
        """Messages that wait for this id, and that messages of others wait for: their senders may
        have a version with another history. Each is named at most `limit` times."""
        result = []
        for message_id in self._children.get(dependency, ()):
            waiting = self._waiting[message_id]
            if message_id in self._children and waiting.reviews < limit:
                waiting.reviews += 1
                result.append(message_id)
                if len(result) == _DOUBTFUL:
                    break
        return result

    def take(self, message_id: MessageId) -> None:
        """A message needs to wait no more, whatever it waits for."""
        self._forget(self._waiting[message_id])

    def make_room(self, sender: SenderId, size: int) -> tuple[bool, list[Waiting]]:
        """Room for a message of `size` bytes from `sender`: whether there is, and what left the
        buffer for it.

        There is none where the sender has its share, or nobody has more than it would have.
        """
        params = self._params
        share = params.sender_share
        if (
            self._count.of(sender) >= params.incoming_limit * share
            or self._bytes.of(sender) + size > params.incoming_bytes * share
        ):
            return False, []
        left: list[Waiting] = []
        while True:
            if len(self._waiting) >= params.incoming_limit:
                most = self._count.yields_to(sender)
            elif self._size + size > params.incoming_bytes:
                most = self._bytes.yields_to(sender, size)
            else:
                return True, left
            if most is None:
                return False, left
            left.append(self._leave(most))

    def add(
        self, message: Message, raw: bytes, origin: bytes, unmet: dict[MessageId, None], now: Time
    ) -> None:
        message_id = message.message_id
        self._waiting[message_id] = Waiting(message, raw, origin, unmet, [])
        for dependency in unmet:
            self._children.setdefault(dependency, {})[message_id] = None
        self._count.add(message.sender_id)
        self._bytes.add(message.sender_id, len(raw))
        self._size += len(raw)
        # Twice as long as a missing id: this only catches messages that wait for each other.
        patience = 2 * self._params.lost_after
        self._overdue.set(message_id, self._presence.elapsed(now) + patience)

    def met(self, dependency: MessageId, *, lost: bool = False) -> list[Waiting]:
        """`dependency` is delivered or given up; returns the messages that then need nothing."""
        ready = []
        for message_id in self._children.pop(dependency, ()):
            waiting = self._waiting[message_id]
            del waiting.unmet[dependency]
            if lost:
                waiting.lost.append(dependency)
            if not waiting.unmet:
                self._remove(waiting)
                ready.append(waiting)
        ready.sort(key=_order)
        return ready

    def overdue(self, now: Time) -> list[MessageId]:
        """Dependencies of messages that have waited for too long, whatever the reason."""
        ids: dict[MessageId, None] = {}
        for message_id in self._overdue.pop_due(self._presence.elapsed(now) + ROUNDING):
            ids.update(self._waiting[message_id].unmet)
        return list(ids)

    def _remove(self, waiting: Waiting) -> None:
        message = waiting.message
        del self._waiting[message.message_id]
        self._overdue.cancel(message.message_id)
        self._count.remove(message.sender_id)
        self._bytes.remove(message.sender_id, len(waiting.raw))
        self._size -= len(waiting.raw)

    def _leave(self, sender: SenderId) -> Waiting:
        """The last message of `sender` leaves the buffer."""
        waiting = next(w for w in reversed(self._waiting.values()) if w.message.sender_id == sender)
        self._forget(waiting)
        return waiting

    def _forget(self, waiting: Waiting) -> None:
        for dependency in waiting.unmet:
            children = self._children[dependency]
            del children[waiting.message.message_id]
            if not children:
                del self._children[dependency]
        self._remove(waiting)


def _order(waiting: Waiting) -> tuple[int, MessageId]:
    return (waiting.message.lamport or 0, waiting.message.message_id)
