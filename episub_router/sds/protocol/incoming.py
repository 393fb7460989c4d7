"""The incoming buffer: messages that wait for their causal dependencies (S05)."""

from __future__ import annotations

from dataclasses import dataclass, field

from episub_router.protocol.types import Time
from episub_router.sds.protocol.group import ROUNDING, Group
from episub_router.sds.protocol.message import Message, MessageId, ReceivedMessage, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.shares import Shares
from episub_router.util.timers import TimerMap

_UNIT = 6500
"""Bytes of a message for which it counts as one (chosen): 10,000 take 64 MiB at most."""
_TOP_UP = 16
"""Dependencies of a message that are met before more of them are looked for (chosen)."""


@dataclass(slots=True)
class Waiting:
    """A buffered message, the ids that it waits for and those that were given up."""

    received: ReceivedMessage
    unmet: dict[MessageId, None]
    lost: list[MessageId] = field(default_factory=list)

    @property
    def message(self) -> Message:
        return self.received.message


class Incoming:
    """Bounded, and in what one sender may take. A large message counts as several."""

    def __init__(self, params: SdsParams, group: Group) -> None:
        self._params = params
        self._group = group
        self._waiting: dict[MessageId, Waiting] = {}
        self._children: dict[MessageId, dict[MessageId, None]] = {}
        self._held: Shares[MessageId, SenderId] = Shares(params.incoming_limit)
        self._overdue: TimerMap[MessageId] = TimerMap()
        self.fewer: dict[MessageId, Waiting] = {}
        """Messages that wait for fewer than they did, of which more can be looked for."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._waiting

    def get(self, message_id: MessageId) -> Waiting | None:
        return self._waiting.get(message_id)

    def next(self) -> Time:
        return self._group.when(self._overdue.deadline)

    def needs(self, dependency: MessageId) -> bool:
        """Whether a buffered message waits for this id."""
        return dependency in self._children

    def make_room(self, sender: SenderId, size: int) -> tuple[bool, list[Waiting]]:
        """Room for a message of `size` bytes from `sender`: whether there is, and what left the
        buffer for it."""
        left: list[Waiting] = []
        room = self._held.make_room(
            sender, lambda last: left.append(self._leave(last)), _units(size)
        )
        return room, left

    def add(self, received: ReceivedMessage, unmet: dict[MessageId, None], now: Time) -> None:
        message_id = received.message.message_id
        self._waiting[message_id] = Waiting(received, unmet)
        for dependency in unmet:
            self._children.setdefault(dependency, {})[message_id] = None
        self._held.add(message_id, received.message.sender_id, _units(len(received.raw)))
        # Twice as long as a missing id: this only catches messages that wait for each other.
        patience = 2 * self._params.lost_after
        self._overdue.set(message_id, self._group.elapsed(now) + patience)

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
            elif len(waiting.unmet) % _TOP_UP == 0:
                self.fewer[message_id] = waiting
        ready.sort(key=lambda waiting: waiting.message.key)
        return ready

    def overdue(self, now: Time) -> list[MessageId]:
        """Dependencies of messages that have waited for too long, whatever the reason."""
        ids: dict[MessageId, None] = {}
        for message_id in self._overdue.pop_due(self._group.elapsed(now) + ROUNDING):
            ids.update(self._waiting[message_id].unmet)
        return list(ids)

    def _remove(self, waiting: Waiting) -> None:
        message_id = waiting.message.message_id
        del self._waiting[message_id]
        self.fewer.pop(message_id, None)
        self._overdue.cancel(message_id)
        self._held.remove(message_id)

    def _leave(self, message_id: MessageId) -> Waiting:
        """A message leaves the buffer before it could be delivered."""
        waiting = self._waiting[message_id]
        for dependency in waiting.unmet:
            children = self._children[dependency]
            del children[message_id]
            if not children:
                del self._children[dependency]
        self._remove(waiting)
        return waiting


def _units(size: int) -> int:
    """As how many messages one of so many bytes counts."""
    return -(-size // _UNIT)
