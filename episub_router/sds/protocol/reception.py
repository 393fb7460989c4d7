"""The steps that follow a received message: acknowledgements, gaps, delivery (S08, S10, S14)."""

from __future__ import annotations

from episub_router.protocol.types import Time
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.causal.delivery import CausalDelivery
from episub_router.sds.protocol.causal.incoming import Waiting
from episub_router.sds.protocol.causal.log import Log
from episub_router.sds.protocol.clock import LamportClock
from episub_router.sds.protocol.dialect import Dialect
from episub_router.sds.protocol.effects import DiscardReason, Effect, PeerRef
from episub_router.sds.protocol.group import Group
from episub_router.sds.protocol.message import HistoryEntry, Kind, Message, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.received import ReceivedMessage, Way
from episub_router.sds.protocol.reconciliation.catchup import Catchup
from episub_router.sds.protocol.reconciliation.joining import Joining
from episub_router.sds.protocol.repair.responses import Responses
from episub_router.sds.protocol.repair.wants import PULL_DELAY, Wants
from episub_router.sds.protocol.sending.outgoing import Outgoing
from episub_router.sds.protocol.sending.sync import SyncTimer
from episub_router.util.bounded import put_last

_EPHEMERAL = 1024
"""Ids of ephemeral messages that are kept in mind, as they may come twice (chosen)."""
_SYNC_WANTS = 64
"""Messages that are looked for because a sync message names them; what else is missing, comparing
logs finds (chosen)."""
HONOURED = 16
"""Repair requests of one message; more are ignored (chosen)."""


class Reception:
    """Works on the parts of one participant; see there."""

    def __init__(
        self,
        me: SenderId,
        channel_id: str,
        params: SdsParams,
        *,
        clock: LamportClock,
        log: Log,
        delivery: CausalDelivery,
        dialect: Dialect,
        wants: Wants,
        outgoing: Outgoing,
        group: Group,
        responses: Responses,
        sync: SyncTimer,
        catchup: Catchup,
        joining: Joining,
    ) -> None:
        self._me = me
        self._channel_id = channel_id
        self._params = params
        self._clock = clock
        self._log = log
        self._delivery = delivery
        self._dialect = dialect
        self._wants = wants
        self._outgoing = outgoing
        self._group = group
        self._responses = responses
        self._sync = sync
        self._catchup = catchup
        self._joining = joining
        self._ephemeral: dict[MessageId, None] = {}

    def receive(self, received: ReceivedMessage, now: Time) -> list[Effect]:
        """A message from the network, of whichever kind and way."""
        message = received.message
        sender = message.sender_id
        if message.channel_id != self._channel_id:
            return [fx.Discarded(sender, DiscardReason.WRONG_CHANNEL)]
        if received.way is Way.UNPROVEN:
            return [fx.Discarded(sender, DiscardReason.NOT_PROVEN)]
        kind = message.kind
        if kind is not Kind.CONTENT and received.way is not Way.BROADCAST:
            return [fx.Discarded(sender, DiscardReason.NOT_ASKED_FOR)]
        if kind is Kind.EPHEMERAL:
            return self._receive_ephemeral(message)
        effects: list[Effect] = []
        history = message.history_ids
        current = received.way is Way.BROADCAST and sender != self._me
        if current:
            if not self._group.anybody(now):
                self._outgoing.postpone(now)
            self._group.note(sender, now)
            if self._params.repair:
                self._hear_requests(message, now, effects)
        if sender != self._me:
            self._review_acks(message, history, now, effects)
        if kind is Kind.CONTENT:
            self._receive_content(received, history, now, effects)
        elif current:
            effects.append(fx.SyncHeard(sender))
            # A sync message is no message to wait for: what it names is looked for at once.
            self.want_unknown(message, received.source, now, effects, most=_SYNC_WANTS)
        if current:
            named = [message.message_id, *history]
            self._sync.note_message(named, sender, self._log.heads, self._group.count(now), now)
        return effects

    def _receive_ephemeral(self, message: Message) -> list[Effect]:
        if message.sender_id == self._me:
            return [fx.Discarded(message.sender_id, DiscardReason.OWN_ECHO)]
        if message.message_id in self._ephemeral:
            return [fx.Discarded(message.sender_id, DiscardReason.DUPLICATE)]
        put_last(self._ephemeral, message.message_id, None, _EPHEMERAL)
        return [fx.DeliverEphemeral(message)]

    def _receive_content(
        self, received: ReceivedMessage, history: list[MessageId], now: Time, effects: list[Effect]
    ) -> None:
        message, sender = received.message, received.message.sender_id
        new_id = message.message_id
        if new_id in self._log or new_id in self._delivery.incoming:
            self._receive_again(received, now, effects)
            return
        lamport = message.lamport or 0
        wall = self._clock.wall(now)
        if self._clock.ahead(lamport, wall) and lamport > 1 + self._delivery.newest(history):
            effects.append(fx.Discarded(sender, DiscardReason.CLOCK_AHEAD))
            effects.append(fx.ClockAhead(sender, (lamport - wall) / 1000))
            return
        if self._joining.pending:
            if self._catchup.asks_somebody:
                effects.append(fx.Discarded(sender, DiscardReason.JOINING))
                return
            effects += self._joining.begin(max(0, lamport - 1), now)
        if self._log.is_old((lamport, new_id), sender):
            self._log.pass_by(new_id)
            effects.append(fx.Discarded(sender, DiscardReason.TOO_OLD))
            self._delivery.go_on_without(new_id, effects, lost=False)
            return
        unmet = dict.fromkeys(self._delivery.unmet(history))
        if unmet and not self._make_room(sender, len(received.raw), now, effects):
            effects.append(fx.Discarded(sender, DiscardReason.INCOMING_FULL))
            return
        self._dialect.received(new_id)
        if sender != self._me and (received.way is Way.BROADCAST or received.source == sender):
            # Its author waits to hear that somebody has it, also one that hands it out itself.
            self._sync.received(new_id, sender, self._group.count(now), now)
        want = self._wants.found(new_id)
        if want is not None:
            effects.append(fx.Found(new_id, now - want.since))
        if not unmet:
            waiting = Waiting(message, received.raw, received.origin, unmet, [])
            self._delivery.deliver(waiting, effects)
            self._sync.start(now)
            return
        self._delivery.incoming.add(message, received.raw, received.origin, unmet, now)
        effects.append(fx.Buffered(new_id, received.raw, received.origin))
        effects.append(fx.Missing(new_id, tuple(unmet)))
        self.want_unknown(message, received.source, now, effects)

    def _make_room(self, sender: SenderId, size: int, now: Time, effects: list[Effect]) -> bool:
        room, left = self._delivery.incoming.make_room(sender, size)
        for waiting in left:
            left_id, author = waiting.message.message_id, waiting.message.sender_id
            effects.append(fx.Unbuffered(left_id))
            effects.append(fx.Discarded(author, DiscardReason.INCOMING_FULL))
            if self._delivery.incoming.needs(left_id):
                entry = HistoryEntry(left_id, None, author)
                lamport = waiting.message.lamport or 0
                self._wants.add(entry, author, None, now, clock=lamport, pull_after=PULL_DELAY)
        return room

    def _receive_again(self, received: ReceivedMessage, now: Time, effects: list[Effect]) -> None:
        message, sender = received.message, received.message.sender_id
        self._responses.seen(message.message_id)
        if sender == self._me:
            effects.append(fx.Discarded(sender, DiscardReason.OWN_ECHO))
            return
        effects.append(fx.Discarded(sender, DiscardReason.DUPLICATE))
        if message.message_id in self._log and received.way is Way.BROADCAST:
            # Its author sends it again, and waits to hear that somebody has it.
            self._sync.received(message.message_id, sender, self._group.count(now), now)

    def _review_acks(
        self, message: Message, history: list[MessageId], now: Time, effects: list[Effect]
    ) -> None:
        own_seen = self._log.own_seen(history)
        if own_seen:
            lacks = own_seen if message.gaps_more else self._log.own_seen(message.gaps)
            effects += self._outgoing.review(message.sender_id, own_seen, lacks, message.since)
        effects += self._dialect.review(message, self._outgoing, now)

    def _hear_requests(self, message: Message, now: Time, effects: list[Effect]) -> None:
        for request in message.repair_request[:HONOURED]:
            self._wants.asked_by_other(request.message_id, now)
            entry = self._log.get(request.message_id)
            if entry is not None:
                effects += self._responses.requested(
                    request.message_id,
                    entry.sender_id,
                    entry.size,
                    message.sender_id,
                    self._group.count(now),
                    now,
                )

    def want_unknown(
        self,
        message: Message,
        source: PeerRef | None,
        now: Time,
        effects: list[Effect],
        *,
        most: int | None = None,
    ) -> None:
        """Look for what a message names and we don't have; the first `most` of it."""
        incoming = self._delivery.incoming
        unknown = [i for i in self._delivery.unmet(message.history_ids) if i not in incoming][:most]
        if not unknown:
            return
        entries = {e.message_id: e for e in message.causal_history}
        sender, lamport = message.sender_id, message.lamport or 0
        full = False
        for missing in unknown:
            entry = entries.get(missing) or HistoryEntry(missing)
            full |= not self._wants.add(
                entry, sender, source, now, clock=lamport, pull_after=PULL_DELAY
            )
        if full:
            effects.append(fx.Discarded(message.sender_id, DiscardReason.WANTED_FULL))
