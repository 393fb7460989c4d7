"""Our own messages: the members that have them, and resending what nobody has (S04, S10, S12)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from episub_router.protocol.types import Time
from episub_router.sds.bloom import SATURATED, BaseHash, ReceivedFilter
from episub_router.sds.protocol.effects import (
    Acknowledged,
    AckStored,
    BroadcastBytes,
    Discarded,
    DiscardReason,
    Effect,
    Expired,
    PossiblyAcknowledged,
    Purpose,
    Resent,
    Settled,
    Untracked,
)
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.timers import Timers


class AckStatus(Enum):
    """The three states of an own message, and giving up."""

    UNACKNOWLEDGED = "unacknowledged"
    POSSIBLY = "possibly-acknowledged"
    ACKNOWLEDGED = "acknowledged"
    EXPIRED = "expired"


@dataclass(slots=True)
class Own:
    """One message of our own. `sequence` counts them from 1, `clock` is its place's."""

    message_id: MessageId
    sequence: int
    clock: int
    raw: bytes
    base: BaseHash
    attempts: int = 0
    status: AckStatus = AckStatus.UNACKNOWLEDGED
    published: bool = False
    """Whether it was handed to the network since we started."""
    acked_by: dict[SenderId, None] = field(default_factory=dict)
    possibly_by: dict[SenderId, float] = field(default_factory=dict)


class Outgoing:
    """The outgoing buffer, and for a while after it the members that have a message.

    Each own message has the one before it in its causal history, so a sender that has
    delivered our n-th message has delivered all before it: what a message acknowledges is one
    number, the most recent own message among its ancestors.
    """

    def __init__(
        self,
        params: SdsParams,
        rng: random.Random,
        base_hash: Callable[[MessageId], BaseHash],
    ) -> None:
        self._params = params
        self._rng = rng
        self._base_hash = base_hash
        self._tracked: dict[int, Own] = {}
        self._by_id: dict[MessageId, Own] = {}
        self._acked_up_to: dict[SenderId, int] = {}
        self._joined_at: dict[SenderId, int] = {}
        self._buffer: dict[MessageId, Own] = {}
        self._timers: Timers[MessageId] = Timers()
        self.sequence = 0

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def full(self) -> bool:
        """Whether another message would push the oldest out of the buffer."""
        return len(self._buffer) >= self._params.outgoing_limit

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._buffer

    def get(self, message_id: MessageId) -> Own | None:
        """What is known of an own message, as long as it is tracked."""
        return self._by_id.get(message_id)

    def next(self) -> Time:
        return self._timers.next()

    def add(self, message_id: MessageId, raw: bytes, clock: int, now: Time) -> list[Effect]:
        """A new message of our own, just published."""
        self.sequence += 1
        resend_at = now + self._period(0, possibly=False)
        return self._track(message_id, self.sequence, clock, raw, resend_at)

    def restore(
        self,
        message_id: MessageId,
        sequence: int,
        raw: bytes,
        clock: int,
        now: Time,
        acked_by: Iterable[SenderId] = (),
    ) -> None:
        """A message that was in the buffer when we stopped: resend it soon."""
        self.sequence = max(self.sequence, sequence)
        soon = now + self._rng.random() * self._params.resend_interval
        self._track(message_id, sequence, clock, raw, soon)
        self._by_id[message_id].acked_by = dict.fromkeys(acked_by)

    def remember(
        self, message_id: MessageId, sequence: int, clock: int, acked_by: Iterable[SenderId]
    ) -> None:
        """A message that was out of the buffer when we stopped."""
        own = Own(message_id, sequence, clock, b"", self._base_hash(message_id), published=True)
        own.acked_by = dict.fromkeys(acked_by)
        if len(own.acked_by) >= self._params.ack_quorum:
            own.status = AckStatus.ACKNOWLEDGED
        self._tracked[sequence] = self._by_id[message_id] = own

    def review_start(self, sender: SenderId, since: int) -> None:
        """`sender` joined late: it has none of our messages with a clock up to `since`."""
        if self._joined_at.get(sender) == since:
            return
        if len(self._joined_at) >= self._params.members_limit:
            del self._joined_at[next(iter(self._joined_at))]
        self._joined_at[sender] = since
        last = max((n for n, own in self._tracked.items() if own.clock <= since), default=0)
        if last > self._acked_up_to.get(sender, 0):
            self._set_acked(sender, last)

    def review_history(
        self, sender: SenderId, own_seen: int, lacks: int = 0, named: Iterable[MessageId] = ()
    ) -> list[Effect]:
        """`sender` has delivered our messages up to number `own_seen`.

        Except, where it says that something is missing there, those up to number `lacks`, of
        which it has for certain only what it named itself.
        """
        done = self._acked_up_to.get(sender, 0)
        if own_seen <= done:
            return []
        effects: list[Effect] = []
        if lacks <= done:
            self._set_acked(sender, own_seen)
        else:
            for message_id in named:
                own = self._by_id.get(message_id)
                if own is not None and own.sequence <= lacks:
                    self._acknowledge(own, sender, effects)
        oldest = next(iter(self._tracked), own_seen + 1)
        for sequence in range(max(done + 1, lacks + 1, oldest), own_seen + 1):
            own = self._tracked.get(sequence)
            if own is not None:
                self._acknowledge(own, sender, effects)
        return effects

    def review_filter(self, sender: SenderId, received: ReceivedFilter, now: Time) -> list[Effect]:
        """Look for our unacknowledged messages in `sender`'s filter."""
        effects: list[Effect] = []
        hits = [
            own
            for own in self._buffer.values()
            if sender not in own.acked_by and received.holds(own.base)
        ]
        if not hits:
            return effects
        probability = received.false_positive_rate()
        if probability >= SATURATED:
            return [Discarded(sender, DiscardReason.FILTER_SATURATED)]
        for own in hits:
            # Filters of members that have the same messages have the same false positives, so
            # a second filter says nothing new: only a filter that is rarely wrong counts.
            if probability <= self._params.promote_below:
                self._acknowledge(own, sender, effects)
            elif sender not in own.possibly_by:
                own.possibly_by[sender] = probability
                effects.append(PossiblyAcknowledged(own.message_id, sender, probability))
                if own.status is AckStatus.UNACKNOWLEDGED:
                    own.status = AckStatus.POSSIBLY
                    self._timers.set(
                        own.message_id, now + self._period(own.attempts, possibly=True)
                    )
        return effects

    def postpone(self, now: Time) -> None:
        """Somebody came after nobody was there: comparing logs may spare us the resending."""
        for own in self._buffer.values():
            self._timers.set(own.message_id, now + self._period(1, possibly=False))

    def poll(self, now: Time, *, alone: bool = False) -> list[Effect]:
        """The outgoing sweep: resend what is due (S12). To nobody nothing is resent."""
        effects: list[Effect] = []
        for message_id in self._timers.pop_due(now):
            own = self._buffer[message_id]
            if alone:
                self._timers.set(message_id, now + self._period(0, possibly=False))
                continue
            if own.attempts >= self._params.resend_limit:
                self._expire(own, effects)
                continue
            own.attempts += 1
            possibly = own.status is AckStatus.POSSIBLY
            self._timers.set(message_id, now + self._period(own.attempts, possibly=possibly))
            effects.append(BroadcastBytes(message_id, own.raw, Purpose.RESEND))
            effects.append(Resent(message_id, own.attempts))
        return effects

    def _set_acked(self, sender: SenderId, sequence: int) -> None:
        full = len(self._acked_up_to) >= self._params.members_limit
        if full and sender not in self._acked_up_to:
            del self._acked_up_to[next(iter(self._acked_up_to))]
        self._acked_up_to[sender] = sequence

    def _track(
        self, message_id: MessageId, sequence: int, clock: int, raw: bytes, resend_at: Time
    ) -> list[Effect]:
        own = Own(message_id, sequence, clock, raw, self._base_hash(message_id))
        self._tracked[sequence] = own
        self._by_id[message_id] = own
        self._buffer[message_id] = own
        self._timers.set(message_id, resend_at)
        effects: list[Effect] = []
        if len(self._buffer) > self._params.outgoing_limit:
            # It stays in the log, where others find it when they compare.
            oldest = next(iter(self._buffer.values()))
            self._leave(oldest, effects)
        if len(self._tracked) > self._params.tracked_limit:
            for old in self._tracked.values():
                if old.message_id not in self._buffer:
                    del self._tracked[old.sequence], self._by_id[old.message_id]
                    effects.append(Untracked(old.message_id))
                    break
        return effects

    def _acknowledge(self, own: Own, sender: SenderId, effects: list[Effect]) -> None:
        if sender in own.acked_by or len(own.acked_by) >= self._params.members_limit:
            return
        own.acked_by[sender] = None
        own.possibly_by.pop(sender, None)
        effects.append(AckStored(own.message_id, sender))
        effects.append(Acknowledged(own.message_id, sender))
        if len(own.acked_by) >= self._params.ack_quorum:
            own.status = AckStatus.ACKNOWLEDGED
            if self._buffer.pop(own.message_id, None) is not None:
                self._timers.cancel(own.message_id)
                own.raw = b""
                effects.append(Settled(own.message_id))

    def _expire(self, own: Own, effects: list[Effect]) -> None:
        self._leave(own, effects)
        own.status = AckStatus.EXPIRED
        effects.append(Expired(own.message_id))

    def _leave(self, own: Own, effects: list[Effect]) -> None:
        del self._buffer[own.message_id]
        self._timers.cancel(own.message_id)
        own.raw = b""
        effects.append(Settled(own.message_id))

    def _period(self, attempts: int, *, possibly: bool) -> float:
        params = self._params
        base = params.possibly_resend_interval if possibly else params.resend_interval
        spread = self._rng.uniform(1 - params.timer_jitter, 1 + params.timer_jitter)
        return float(base * params.resend_factor**attempts * spread)
