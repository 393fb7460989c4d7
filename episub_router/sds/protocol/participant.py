"""One participant of one channel: the protocol steps of SDS over its buffers (S07-S14)."""

from __future__ import annotations

import random
from collections.abc import Callable
from zlib import crc32

from episub_router.protocol.types import Time
from episub_router.sds.bloom import FilterCodec
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.causal.delivery import CausalDelivery
from episub_router.sds.protocol.causal.frontier import Frontier
from episub_router.sds.protocol.causal.incoming import Waiting
from episub_router.sds.protocol.causal.log import Log
from episub_router.sds.protocol.clock import LamportClock
from episub_router.sds.protocol.effects import DiscardReason, Effect, PeerRef, Purpose
from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.members import Members
from episub_router.sds.protocol.message import (
    HistoryEntry,
    Kind,
    Message,
    MessageId,
    SenderId,
    message_id,
)
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.received import ReceivedMessage, Way
from episub_router.sds.protocol.reconciliation.catchup import Catchup, HeadsAnswer
from episub_router.sds.protocol.reconciliation.peers import StreamPeers
from episub_router.sds.protocol.repair.responses import Responses
from episub_router.sds.protocol.repair.wants import Wants
from episub_router.sds.protocol.restored import Restored
from episub_router.sds.protocol.sending.composer import Composer
from episub_router.sds.protocol.sending.outgoing import Outgoing
from episub_router.sds.protocol.sending.sync import SyncTimer


class Participant:
    """Events and `now` (seconds, monotonic) in, effects out; see `effects` for their order.

    `prove` gives the origin that is kept with a message of our own. `verify_ids`: a message's id
    must be the hash that we give to our own, so that nobody can take another's. `wall_offset` is
    Unix time minus `now`; the driver may move it as its clock is set.
    """

    def __init__(
        self,
        me: SenderId,
        channel_id: str,
        params: SdsParams,
        *,
        encode: Callable[[Message], bytes],
        prove: Callable[[bytes], bytes] = lambda raw: b"",
        filters: FilterCodec,
        verify_ids: bool = False,
        rng: random.Random,
        now: Time,
        wall_offset: float,
        restored: Restored | None = None,
    ) -> None:
        self.me = me
        self.channel_id = channel_id
        self.params = params
        self.wall_offset = wall_offset
        self._prove = prove
        self._filters = filters
        self._verify_ids = verify_ids
        self.clock = LamportClock(self._wall(now), int(params.max_clock_lead * 1000))
        self.log = Log()
        self.peers = StreamPeers(params)
        self.outgoing = Outgoing(params, rng, filters.base_hash)
        self.wants = Wants(me, params, rng, self.peers)
        self.members = Members(params)
        self._responses = Responses(me, params)
        self._sync = SyncTimer(params, rng)
        self._frontier = Frontier(self.log, filters, params, rng)
        self._composer = Composer(me, channel_id, params, encode, rng, self._frontier)
        self._delivery = CausalDelivery(params, self.clock, self.log, self._frontier, self.wants)
        self.incoming = self._delivery.incoming
        self._catchup = Catchup(params, rng, self.peers, self.log)
        self._ephemeral: dict[MessageId, None] = {}
        if restored is not None:
            self._restore(restored, now)

    # Sending (S07, S14)

    def send(self, content: bytes, now: Time) -> tuple[MessageId, list[Effect]]:
        """A new message. Raises ValueError where it's empty or larger than a message may be."""
        if not content:
            raise ValueError("a message needs content; an empty one would be a sync message")
        lamport = self.clock.tick(self._wall(now))
        history = self._frontier.history()
        requests = self.wants.take_requests(now)
        new_id, raw = self._composer.content(content, lamport, history, requests)
        entry = LogEntry(lamport, self.me, crc32(content), self.outgoing.sequence + 1)
        covered = self.log.add(new_id, entry, [e.message_id for e in history], head=True)
        self._frontier.received(new_id)
        self._frontier.delivered(new_id)
        self._frontier.last_own = new_id
        effects: list[Effect] = [
            fx.ClockSet(lamport),
            fx.Logged(
                new_id,
                entry,
                raw,
                self._prove(raw),
                0,
                (),
                tuple(covered),
                head=True,
                outgoing=True,
            ),
            fx.BroadcastBytes(new_id, raw, Purpose.CONTENT),
        ]
        effects += self.outgoing.add(new_id, raw, now)
        effects += self._delivery.evict()
        self._sync.sent(self.members.count(now), now)
        return new_id, effects

    def send_ephemeral(self, content: bytes) -> list[Effect]:
        """A message without any guarantee. Raises ValueError like `send`."""
        if not content:
            raise ValueError("an ephemeral message needs content")
        new_id, raw = self._composer.ephemeral(content)
        return [fx.BroadcastBytes(new_id, raw, Purpose.EPHEMERAL)]

    # Receiving (S08)

    def receive(self, received: ReceivedMessage, now: Time) -> list[Effect]:
        """A message from the network, of whichever kind and way."""
        message = received.message
        sender = message.sender_id
        if message.channel_id != self.channel_id:
            return [fx.Discarded(sender, DiscardReason.WRONG_CHANNEL)]
        if received.way is Way.UNPROVEN:
            return [fx.Discarded(sender, DiscardReason.NOT_PROVEN)]
        kind = message.kind
        if kind is not Kind.CONTENT and received.way is not Way.BROADCAST:
            return [fx.Discarded(sender, DiscardReason.NOT_ASKED_FOR)]
        if kind is Kind.EPHEMERAL:
            return self._receive_ephemeral(message)
        effects: list[Effect] = []
        history = [
            e.message_id for e in message.causal_history if e.message_id != message.message_id
        ]
        current = received.way is Way.BROADCAST and sender != self.me
        if current:
            self.members.heard(sender, now)
            self._hear_requests(message, now, effects)
        if sender != self.me:
            self._review_acks(message, history, now, effects)
        if kind is Kind.CONTENT:
            self._receive_content(received, history, now, effects)
        elif current:
            effects.append(fx.SyncHeard(sender))
            # A sync message is no message to wait for: what it names is looked for at once.
            self._want_unknown(message, received.source, now, effects)
        if current:
            named = [message.message_id, *history]
            members = self.members.count(now)
            self._sync.heard(named, sender, self.log.heads, members, now)
        return effects

    # Direct streams

    def heads(self, count: int) -> HeadsAnswer:
        """What to tell a peer that wants to compare logs; `count` messages are stored."""
        return HeadsAnswer(
            heads=tuple(self.log.key(i) for i in self.log.heads),
            count=count,
            segments=self.log.segments(self.params.segment_size, self.params.segment_span),
        )

    def peer_up(self, peer: PeerRef, now: Time) -> None:
        """`peer` can be asked."""
        if self.peers.up(peer):
            self._catchup.peer_up(peer, now)
            self.wants.peer_appeared(now)

    def peer_down(self, peer: PeerRef, now: Time) -> None:
        self.peers.down(peer)
        self._catchup.peer_down(peer, now)

    def ids_answered(
        self, peer: PeerRef, unknown: tuple[MessageId, ...], now: Time
    ) -> list[Effect]:
        """`peer` has answered `AskIds`; it doesn't have these."""
        self.peers.answered(peer)
        self.wants.not_had(unknown, now)
        return self.poll(now)

    def ids_failed(self, peer: PeerRef, asked: tuple[MessageId, ...], now: Time) -> None:
        """`AskIds` got no usable answer."""
        self.peers.failed(peer, now)
        self.wants.not_had(asked, now)

    def heads_answered(self, peer: PeerRef, answer: HeadsAnswer, now: Time) -> list[Effect]:
        return self._catchup.heads_answered(peer, answer, now)

    def range_answered(
        self, peer: PeerRef, ids: tuple[Key, ...], more: Key | None, now: Time
    ) -> list[Effect]:
        """`peer` has answered `AskRange`; `ids` where only ids were asked for."""
        effects: list[Effect] = []
        for key in ids:
            if not self._delivery.known(key[1]) and not self.log.below_floor(key):
                entry = HistoryEntry(key[1])
                blamed = f"peer:{peer}"
                if not self.wants.add(entry, blamed, peer, now, pull_after=0.0):
                    effects.append(fx.Discarded(peer, DiscardReason.WANTED_FULL))
        effects += self._catchup.range_answered(peer, more, now)
        return effects + self.poll(now)

    def compare_failed(self, peer: PeerRef, now: Time) -> None:
        """`AskHeads` or `AskRange` got no usable answer."""
        self.peers.failed(peer, now)
        self._catchup.failed(peer, now)

    # Time

    def deadline(self) -> Time:
        """When `poll` has something to do."""
        return min(
            self.outgoing.next(),
            self.incoming.next(),
            self.wants.next(),
            self._responses.next(),
            self._sync.next(),
            self._catchup.next(),
        )

    def poll(self, now: Time) -> list[Effect]:
        """The periodic sweeps, as far as they are due (S11-S13)."""
        effects = self.outgoing.poll(now)
        effects += self.wants.poll(now)
        given_up = self.wants.ended(now) + self.incoming.overdue(now)
        self._delivery.give_up(given_up, self._wall(now), effects)
        effects += self._responses.poll(now)
        effects += self._catchup.poll(now)
        if self.wants.overdue:
            self._sync.hasten(now)
        if self._sync.next() <= now:
            effects += self._send_sync(now)
        return effects

    # Steps

    def _receive_ephemeral(self, message: Message) -> list[Effect]:
        if message.sender_id == self.me:
            return [fx.Discarded(message.sender_id, DiscardReason.OWN_ECHO)]
        if message.message_id in self._ephemeral:
            return [fx.Discarded(message.sender_id, DiscardReason.DUPLICATE)]
        self._ephemeral[message.message_id] = None
        if len(self._ephemeral) > self.params.ephemeral_memory:
            del self._ephemeral[next(iter(self._ephemeral))]
        return [fx.DeliverEphemeral(message)]

    def _receive_content(
        self, received: ReceivedMessage, history: list[MessageId], now: Time, effects: list[Effect]
    ) -> None:
        message, sender = received.message, received.message.sender_id
        new_id = message.message_id
        if new_id in self.log or new_id in self.incoming:
            self._receive_again(message, now, effects)
            return
        lamport = self._delivery.lamport(message)
        if self._verify_ids and new_id != message_id(
            message.channel_id, sender, lamport, message.content or b""
        ):
            effects.append(fx.Discarded(sender, DiscardReason.NOT_ITS_HASH))
            return
        if self.log.below_floor((lamport, new_id)):
            effects.append(fx.Discarded(sender, DiscardReason.TOO_OLD))
            self._delivery.go_on_without(new_id, self._wall(now), effects, lost=False)
            return
        unmet = {i: None for i in history if not self._delivery.met(i)}
        if unmet and not self.incoming.room(sender, len(received.raw)):
            effects.append(fx.Discarded(sender, DiscardReason.INCOMING_FULL))
            return
        self._frontier.received(new_id)
        if received.way is Way.BROADCAST and sender != self.me:
            self._sync.received(new_id, sender, self.members.count(now), now)
        want = self.wants.found(new_id)
        if want is not None:
            effects.append(fx.Found(new_id, now - want.since))
        if not unmet:
            waiting = Waiting(message, received.raw, received.origin, unmet, [])
            self._delivery.deliver(waiting, self._wall(now), effects)
            self._sync.start(now)
            return
        self.incoming.add(message, received.raw, received.origin, unmet, now)
        effects.append(fx.Buffered(new_id, received.raw, received.origin))
        effects.append(fx.Missing(new_id, tuple(unmet)))
        self._want_unknown(message, received.source, now, effects)

    def _receive_again(self, message: Message, now: Time, effects: list[Effect]) -> None:
        self._responses.seen(message.message_id, now)
        sender = message.sender_id
        waiting = self.incoming.get(message.message_id)
        entry = self.log.get(message.message_id)
        known = crc32(waiting.message.content or b"") if waiting else entry.digest if entry else 0
        if crc32(message.content or b"") != known:
            effects.append(fx.Conflict(message.message_id, sender))
        elif sender == self.me:
            effects.append(fx.Discarded(sender, DiscardReason.OWN_ECHO))
        else:
            effects.append(fx.Discarded(sender, DiscardReason.DUPLICATE))

    def _review_acks(
        self, message: Message, history: list[MessageId], now: Time, effects: list[Effect]
    ) -> None:
        effects += self.outgoing.review_history(message.sender_id, self._delivery.own_seen(history))
        if message.bloom_filter and len(self.outgoing):
            usable = self._filters.load(message.bloom_filter)
            if usable is None:
                effects.append(fx.Discarded(message.sender_id, DiscardReason.FILTER_UNUSABLE))
            else:
                effects += self.outgoing.review_filter(message.sender_id, usable, now)

    def _hear_requests(self, message: Message, now: Time, effects: list[Effect]) -> None:
        for request in message.repair_request[: self.params.repair_honoured]:
            self.wants.asked_by_other(request.message_id, now)
            entry = self.log.get(request.message_id)
            if entry is not None:
                effects += self._responses.requested(
                    request.message_id,
                    entry.sender_id,
                    message.sender_id,
                    self.members.count(now),
                    now,
                )

    def _want_unknown(
        self, message: Message, source: PeerRef | None, now: Time, effects: list[Effect]
    ) -> None:
        full = False
        for entry in message.causal_history:
            if (
                not self._delivery.known(entry.message_id)
                and entry.message_id != message.message_id
            ):
                full |= not self.wants.add(
                    entry, message.sender_id, source, now, pull_after=self.params.pull_delay
                )
        if full:
            effects.append(fx.Discarded(message.sender_id, DiscardReason.WANTED_FULL))

    def _send_sync(self, now: Time) -> list[Effect]:
        requests = self.wants.take_requests(now)
        members = self.members.count(now)
        self._sync.sent(members, now)
        if not self.log.heads and not requests:
            return []
        lamport = self.clock.tick(self._wall(now))
        new_id, raw = self._composer.sync(lamport, requests)
        return [fx.ClockSet(lamport), fx.BroadcastBytes(new_id, raw, Purpose.SYNC)]

    # Parts

    def _wall(self, now: Time) -> int:
        return int((now + self.wall_offset) * 1000)

    def _restore(self, restored: Restored, now: Time) -> None:
        self.clock.value = max(self.clock.value, restored.clock)
        self._delivery.position = restored.position
        self.log.floor = restored.floor
        for old_id, entry, head in restored.log:
            self.log.add(old_id, entry, (), head=head)
            if entry.sender_id == self.me and entry.own_seen > self.outgoing.sequence:
                self.outgoing.sequence = entry.own_seen
                self._frontier.last_own = old_id
        self._delivery.tombstones = dict.fromkeys(restored.tombstones)
        for old_id, raw in restored.outgoing:
            own = self.log.get(old_id)
            if own is not None:
                self.outgoing.restore(old_id, own.own_seen, raw, now)
        self._frontier.restore(
            self.log.newest(self.params.causal_history),
            [received.message.message_id for received in restored.incoming],
        )
        for received in restored.incoming:
            message = received.message
            history = [e.message_id for e in message.causal_history]
            unmet = {
                i: None for i in history if not self._delivery.met(i) and i != message.message_id
            }
            self.incoming.add(message, received.raw, received.origin, unmet, now)
        for received in restored.incoming:
            self._want_unknown(received.message, None, now, [])
        if len(self.log):
            self._sync.start(now)
