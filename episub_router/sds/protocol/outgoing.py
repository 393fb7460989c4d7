"""Our own messages: the members that have them, and resending what nobody has (S04, S10, S12)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import (
    Acknowledged,
    AckStored,
    BroadcastBytes,
    Effect,
    Expired,
    Purpose,
)
from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.util.bounded import put_last
from episub_router.util.timers import TimerMap

_FACTOR = 2.0
"""By how much each period of resending is longer than the one before."""
_JITTER = 0.2
"""Each period is drawn from ±20 % (chosen)."""
TRACKED = 1000
"""Own messages of which it is told who has them (chosen)."""


class AckStatus(Enum):
    """The states of an own message."""

    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"


@dataclass(slots=True)
class Own:
    """One message of our own. `clock` is its place's, `acks` counts the members that have it."""

    message_id: MessageId
    clock: int
    raw: bytes
    attempts: int = 0
    acks: int = 0
    status: AckStatus = AckStatus.UNACKNOWLEDGED
    published: bool = False
    """Whether it was handed to the network since we started."""


@dataclass(eq=False)
class Outgoing:
    """The outgoing buffer, and what each member has of our messages.

    Each own message has the one before it among its ancestors, so a member that has delivered one
    has those before it. What a member acknowledges is one interval of our clock: it has all of
    ours with after < clock <= until.
    """

    params: SdsParams
    rng: random.Random
    last: MessageId | None = None
    """Our newest message."""
    clock: int = 0
    """Its clock."""
    _acks: dict[SenderId, tuple[int, int]] = field(default_factory=dict)
    _tracked: dict[MessageId, Own] = field(default_factory=dict)
    _buffer: dict[MessageId, Own] = field(default_factory=dict)
    _timers: TimerMap[MessageId] = field(default_factory=TimerMap)

    def __len__(self) -> int:
        return len(self._buffer)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._buffer

    @property
    def full(self) -> bool:
        """Whether another message would push the oldest out of the buffer."""
        return len(self._buffer) >= self.params.outgoing_limit

    @property
    def buffered(self) -> list[Own]:
        """What isn't acknowledged yet, oldest first."""
        return list(self._buffer.values())

    def get(self, message_id: MessageId) -> Own | None:
        """What is known of an own message, as long as it is tracked."""
        return self._tracked.get(message_id)

    def holders(self, own: Own) -> tuple[SenderId, ...]:
        """The members that have a message of ours for certain."""
        return tuple(s for s, (after, until) in self._acks.items() if after < own.clock <= until)

    def next(self) -> Time:
        return self._timers.deadline

    def add(self, message_id: MessageId, raw: bytes, clock: int, now: Time) -> None:
        """A new message of our own, just published."""
        self._resend(self._tracked_as(Own(message_id, clock, raw)), now + self._period(0))

    def restore_acks(self, acks: Mapping[SenderId, tuple[int, int]]) -> None:
        """What members had when we stopped."""
        self._acks = dict(acks)

    def restore(self, message_id: MessageId, clock: int, raw: bytes, now: Time) -> None:
        """A message from before a restart, which is resent soon where it isn't acknowledged."""
        own = self._tracked_as(Own(message_id, clock, b""))
        own.acks = len(self.holders(own))
        if own.acks >= self.params.ack_quorum:
            own.status, own.published = AckStatus.ACKNOWLEDGED, True
        else:
            own.raw = raw
            self._resend(own, now + self.rng.random() * self.params.resend_interval)

    def review(self, sender: SenderId, own_seen: int, lacks: int, since: int) -> list[Effect]:
        """`sender` has delivered our messages up to the clock `own_seen`.

        Except those up to `lacks`, where it says that something is missing there; and it joined
        late, at `since`.
        """
        known = self._acks.get(sender)
        after, until = known or (max(since, lacks), 0)
        if own_seen <= max(after, until) or (known and lacks > until):
            return []
        if known and lacks <= since:
            after = min(after, since)
        if known is None and len(self._acks) >= MEMBERS:
            del self._acks[next(iter(self._acks))]
        self._acks[sender] = (after, own_seen)
        effects: list[Effect] = [AckStored(sender, after, own_seen)]
        old_after, old_until = known or (0, 0)
        for own in self._tracked.values():
            if after < own.clock <= own_seen and not old_after < own.clock <= old_until:
                own.acks += 1
                effects.append(Acknowledged(own.message_id, sender))
                if own.acks >= self.params.ack_quorum:
                    own.status = AckStatus.ACKNOWLEDGED
                    if own.message_id in self._buffer:
                        self._leave(own)
        return effects

    def defer(self, message_id: MessageId, at: Time) -> None:
        """Resend a message not before `at`."""
        if message_id in self._buffer:
            self._timers.set(message_id, at)

    def postpone(self, now: Time) -> None:
        """Somebody came after nobody was there: comparing logs may spare us the resending."""
        for message_id in self._buffer:
            self._timers.set(message_id, now + self._period(1))

    def poll(self, now: Time, *, alone: bool) -> list[Effect]:
        """The outgoing sweep: resend what is due (S12). To nobody nothing is resent."""
        effects: list[Effect] = []
        for message_id in self._timers.pop_due(now):
            own = self._buffer[message_id]
            if alone:
                self._timers.set(message_id, now + self._period(0))
            elif own.attempts >= self.params.resend_limit:
                own.status = AckStatus.EXPIRED
                self._leave(own)
                effects.append(Expired(message_id))
            else:
                own.attempts += 1
                self._timers.set(message_id, now + self._period(own.attempts))
                effects.append(BroadcastBytes(message_id, own.raw, Purpose.RESEND))
        return effects

    def _tracked_as(self, own: Own) -> Own:
        put_last(self._tracked, own.message_id, own, max(TRACKED, self.params.outgoing_limit))
        self.last, self.clock = own.message_id, own.clock
        return own

    def _resend(self, own: Own, at: Time) -> None:
        """Into the buffer. What that pushes out stays in the log, where others find it when they
        compare."""
        self._buffer[own.message_id] = own
        self._timers.set(own.message_id, at)
        if len(self._buffer) > self.params.outgoing_limit:
            self._leave(next(iter(self._buffer.values())))

    def _leave(self, own: Own) -> None:
        del self._buffer[own.message_id]
        self._timers.cancel(own.message_id)
        own.raw = b""

    def _period(self, attempts: int) -> float:
        spread = self.rng.uniform(1 - _JITTER, 1 + _JITTER)
        return self.params.resend_interval * _FACTOR**attempts * spread
