"""From received to delivered: dependencies met, clock merged, log extended (S08, S09, S11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.clock import LamportClock
from episub_router.sds.protocol.effects import Effect
from episub_router.sds.protocol.entry import LogEntry
from episub_router.sds.protocol.incoming import Incoming, Waiting
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import Message, MessageId
from episub_router.sds.protocol.params import LostPolicy, SdsParams
from episub_router.sds.protocol.wants import Wants
from episub_router.util.bounded import put_last

TOMBSTONES = 10_000
"""Ids given up as lost that are kept in mind (chosen)."""
_EVICTIONS = 4096
"""The part of a full log that is evicted at once, so that it is written at once (chosen)."""


@dataclass(eq=False)
class CausalDelivery:
    """The incoming buffer, the log, and the tombstones of what was given up."""

    params: SdsParams
    clock: LamportClock
    log: Log
    delivered: Callable[[Message], None]
    wants: Wants
    incoming: Incoming
    tombstones: dict[MessageId, None] = field(default_factory=dict)
    """At most `TOMBSTONES`, oldest first."""
    forgotten: bool = False
    """Whether there may have been more, also before a restart."""

    def unmet(self, history: Sequence[MessageId]) -> list[MessageId]:
        """Those that aren't delivered, declared lost, or from before we joined, in this order.
        Waiting in the buffer is not enough."""
        tombstones = self.tombstones
        return [i for i in self.log.lacked(history) if i not in tombstones]

    def newest(self, history: Sequence[MessageId]) -> int:
        """The highest clock among these, where we have them all; else 0."""
        entries = [self.log.get(message_id) for message_id in history]
        return max((e.lamport for e in entries if e), default=0) if all(entries) else 0

    def deliver(self, first: Waiting, effects: list[Effect]) -> None:
        """Deliver a message, and then whatever waited for it alone."""
        ready = [first]
        while ready:
            waiting = ready.pop(0)
            self._deliver_one(waiting, effects)
            ready += self.incoming.met(waiting.message.message_id)
        effects += self.evict()

    def give_up(self, ids: list[MessageId], effects: list[Effect]) -> None:
        """Dependencies whose time is over, unless the setting is to wait for ever."""
        if self.params.on_lost is LostPolicy.HOLD:
            return
        for lost in ids:
            want = self.wants.found(lost)
            if not self.unmet([lost]):
                continue
            if want is not None and want.before:
                self.pass_by(lost, effects)
                continue
            effects.append(fx.Lost(lost))
            if self.incoming.needs(lost):
                self.bury(lost)
                effects.append(fx.Tombstone(lost))
            self.go_on_without(lost, effects, lost=True)

    def pass_by(self, message_id: MessageId, effects: list[Effect]) -> None:
        """A message is from before what our log holds: it needn't come."""
        if not self.log.passed(message_id):
            self.log.pass_by(message_id)
            effects.append(fx.Tombstone(message_id, lost=False))
        self.go_on_without(message_id, effects, lost=False)

    def bury(self, lost: MessageId) -> None:
        """References to it count as met."""
        put_last(self.tombstones, lost, None, TOMBSTONES)
        self.forgotten |= len(self.tombstones) >= TOMBSTONES

    def go_on_without(self, dependency: MessageId, effects: list[Effect], *, lost: bool) -> None:
        """`dependency` will not come, or needn't."""
        self.wants.found(dependency)
        for waiting in self.incoming.met(dependency, lost=lost):
            self.deliver(waiting, effects)

    def evict(self) -> list[Effect]:
        """Keep the log within its limit. From a large one some messages go together."""
        log, params = self.log, self.params
        if len(log) <= params.log_limit:
            return []
        least = params.log_limit - params.log_limit // _EVICTIONS
        gone = [log.evict() for _ in range(len(log) - least)]
        senders = dict.fromkeys(["", *(entry.sender_id for _, entry in gone)])
        return [
            fx.Evicted(
                tuple((entry.lamport, message_id) for message_id, entry in gone),
                log.floor,
                {sender: log.departed[sender] for sender in senders if sender in log.departed},
            )
        ]

    def _deliver_one(self, waiting: Waiting, effects: list[Effect]) -> None:
        message = waiting.message
        message_id = message.message_id
        lamport = message.lamport or 0
        if self.clock.merge(lamport):
            effects.append(fx.ClockSet(lamport))
        history = message.history_ids
        raw, origin = waiting.received.raw, waiting.received.origin
        entry = LogEntry(lamport, message.sender_id, self.log.own_seen(history), len(raw))
        # One that was given up before has been referred to already: it is no head.
        head = message_id not in self.tombstones
        self.tombstones.pop(message_id, None)
        self.log.add(message_id, entry, history, head=head)
        self.delivered(message)
        effects.append(fx.Logged(message, entry, raw, origin, tuple(waiting.lost)))
