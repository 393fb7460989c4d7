"""Answering the group's repair requests after a back-off, unless someone else does (SDS-R)."""

from __future__ import annotations

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import Discarded, DiscardReason, Effect, Rebroadcast
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.repair.repair_times import in_response_group, response_delay
from episub_router.sds.protocol.shares import Shares
from episub_router.sds.protocol.timers import Timers


class Responses:
    """At most `repair_limit` answers pending, in fair shares of those that ask, and a bounded
    number of answers per second."""

    def __init__(self, me: SenderId, params: SdsParams) -> None:
        self._me = me
        self._params = params
        self._timers: Timers[MessageId] = Timers()
        self._for: dict[MessageId, SenderId] = {}
        self._held: Shares[SenderId] = Shares()
        self._answered: dict[MessageId, Time] = {}
        self._allowance = params.repair_rate
        self._allowance_at: Time = 0.0

    def __len__(self) -> int:
        return len(self._timers)

    def next(self) -> Time:
        return self._timers.next()

    def requested(
        self, message_id: MessageId, author: SenderId, by: SenderId, members: int, now: Time
    ) -> list[Effect]:
        """`by` asks for a message that we have."""
        if message_id in self._timers or self._recently(message_id, now):
            return []
        groups = members // self._params.group_members + 1
        if not in_response_group(self._me, author, message_id, groups):
            return []
        if len(self._timers) >= self._params.repair_limit:
            most = self._held.yields_to(by)
            if most is None:
                return [Discarded(by, DiscardReason.REPAIR_FULL)]
            self._cancel(next(i for i in reversed(self._for) if self._for[i] == most))
        high = int(self._params.repair_max * 1000)
        delay = response_delay(self._me, author, message_id, high) / 1000
        self._timers.set(message_id, now + delay)
        self._for[message_id] = by
        self._held.add(by)
        return []

    def seen(self, message_id: MessageId, now: Time) -> None:
        """Someone published a copy: ours is not needed."""
        if message_id in self._timers:
            self._cancel(message_id)
            self._remember(message_id, now)

    def poll(self, now: Time) -> list[Effect]:
        effects: list[Effect] = []
        rate = self._params.repair_rate
        self._allowance = min(rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        for message_id in self._timers.pop_due(now):
            if self._allowance < 1:
                self._timers.set(message_id, now + 1.0)
                continue
            self._allowance -= 1
            self._held.remove(self._for.pop(message_id))
            self._remember(message_id, now)
            effects.append(Rebroadcast(message_id))
        return effects

    def _cancel(self, message_id: MessageId) -> None:
        self._timers.cancel(message_id)
        self._held.remove(self._for.pop(message_id))

    def _recently(self, message_id: MessageId, now: Time) -> bool:
        # Shorter than anyone waits before asking again, so that a repeated request means that
        # the answer was lost.
        return now - self._answered.get(message_id, -1e18) < self._params.repair_min / 2

    def _remember(self, message_id: MessageId, now: Time) -> None:
        self._answered.pop(message_id, None)
        self._answered[message_id] = now
        if len(self._answered) > self._params.repair_limit:
            del self._answered[next(iter(self._answered))]
