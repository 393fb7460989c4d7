"""One participant of one channel: the protocol steps of SDS over its buffers (S07-S14)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from episub_router.protocol.types import Time
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.catchup import Catchup
from episub_router.sds.protocol.clock import ClockAheadError, LamportClock
from episub_router.sds.protocol.delivery import CausalDelivery
from episub_router.sds.protocol.effects import DiscardReason, Effect, PeerRef, Purpose
from episub_router.sds.protocol.entry import Key, LogEntry, Restored, StoredMessage
from episub_router.sds.protocol.group import Group
from episub_router.sds.protocol.incoming import Incoming, Waiting
from episub_router.sds.protocol.joining import Joining
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import (
    HistoryEntry,
    Kind,
    Message,
    MessageId,
    ReceivedMessage,
    Segment,
    SenderId,
    Way,
)
from episub_router.sds.protocol.outgoing import Outgoing
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.peers import StreamPeers
from episub_router.sds.protocol.ranges import LogComparison, compare
from episub_router.sds.protocol.responses import Responses
from episub_router.sds.protocol.snapshots import Snapshots, signed_by
from episub_router.sds.protocol.sync import SyncTimer
from episub_router.sds.protocol.wants import PULL_DELAY, Wants
from episub_router.util.bounded import put_last

MAX_HEADS = 1024
"""Heads that a message names, in an eighth of it; of more it names those of senders with most
messages, of equals some at random: so made-up senders take no member's place (chosen)."""
_HEAD = 40
"""Bytes of a head, at most where ids are digests."""
MAX_GAPS = 64
"""Ids of what is missing that a message names (chosen): with more, it acknowledges nothing."""
_EPHEMERAL = 1024
"""Ids of ephemeral messages that are kept in mind, as they may come twice (chosen)."""
_WANTS = 64
"""Messages that are looked for at a time because one message names them (chosen)."""
HONOURED = 16
"""Repair requests of one message; more are ignored (chosen)."""


class MessageCodec(Protocol):
    """Message <-> bytes."""

    def encode(self, message: Message) -> tuple[bytes, MessageId]:
        """A message's bytes, and the id that these have."""

    def decode(self, data: bytes, near: int | None = None) -> Message:
        """The message, of which a clock `near` its own may be known."""


class Dialect:
    """What a participant adds to its messages, and reads from those of others, for other software:
    nothing, as heads say all. `episub_router.sds.interop` has another one."""

    def name(self, sender: SenderId, channel_id: str, lamport: int, content: bytes) -> MessageId:
        """The id that a message of ours carries; empty where it is the hash of its bytes."""
        return ""

    def fill(self, message: Message, log: Log) -> Message:
        """A message of ours with what others need besides."""
        return message

    def received(self, message_id: MessageId) -> None:
        """A message came, and may wait for others."""

    def restore(self, log: Log) -> None:
        """What was logged before a restart."""

    def review(self, message: Message, outgoing: Outgoing, now: Time) -> list[Effect]:
        """What a message of another says about ours besides its history."""
        return []


class Participant:
    """Events and `now` (seconds, monotonic) in, effects out; see `effects` for their order.

    `codec` turns messages into bytes, which give their ids, and back. `prove` gives the origin that
    is kept with a message of our own. `wall_offset` is Unix time minus `now`; the driver may move
    it as its clock is set. `join_last`: a newcomer takes so many of the messages that there are,
    None is all; `join_snapshot`: the newest snapshot that so many members have signed, of which
    `opened` gives the application's state.
    """

    def __init__(
        self,
        me: SenderId,
        channel_id: str,
        params: SdsParams,
        *,
        codec: MessageCodec,
        prove: Callable[[bytes], bytes] = lambda raw: b"",
        dialect: Dialect | None = None,
        rng: random.Random,
        now: Time,
        wall_offset: float,
        restored: Restored | None = None,
        join_last: int | None = None,
        join_snapshot: int | None = None,
        opened: Callable[[bytes], bytes] = lambda state: state,
    ) -> None:
        self.me = me
        self.channel_id = channel_id
        self.params = params
        self._codec = codec
        self._prove = prove
        self._rng = rng
        self._dialect = dialect or Dialect()
        self.clock = LamportClock(wall_offset, now, int(params.max_clock_lead * 1000))
        self.log = Log()
        self.peers = StreamPeers(params)
        self.outgoing = Outgoing(params, rng)
        self.group = Group(params.sync_interval, now)
        self.wants = Wants(me, params, rng, self.peers, self.group)
        self._responses = Responses(me, params)
        self.sync = SyncTimer(me, params, rng, self.group)
        self.snapshots = Snapshots()
        self.incoming = Incoming(params, self.group)
        self._delivery = CausalDelivery(
            params, self.clock, self.log, self.snapshots.note, self.wants, self.incoming
        )
        self._joining = Joining(join_last, join_snapshot, self.log, self.clock)
        self._opened = opened
        self._state = b""
        """What has come of a snapshot."""
        self._catchup = Catchup(params, rng, self.peers, self.log, self._joining, self.wants)
        self._ephemeral: dict[MessageId, None] = {}
        if restored is not None:
            self._restore(restored, now)

    # Sending (S07, S14)

    def send(
        self,
        content: bytes,
        now: Time,
        *,
        segment: Segment | None = None,
        snapshot: int = 0,
    ) -> tuple[MessageId, list[Effect]]:
        """A new message. `segment`: the part of a larger content that this is.

        Raises ValueError where it's empty or larger than a message may be, and ClockAheadError
        where our clock is so far ahead that nobody would take it.
        """
        if not content:
            raise ValueError("a message needs content; an empty one would be a sync message")
        wall = self.clock.wall(now)
        if self.clock.refused(wall):
            ahead = (self.clock.value - wall) / 1000
            raise ClockAheadError(
                f"our clock is {ahead:.0f} s ahead of the time of day, which was set back: others "
                f"refuse more than {self.params.max_clock_lead:.0f} s"
            )
        lamport = self.clock.tick(now)
        draft = self._draft(lamport, self._heads(), now)
        draft = replace(
            draft,
            message_id=self._dialect.name(self.me, self.channel_id, lamport, content),
            content=content,
            segment=segment,
            snapshot=snapshot,
        )
        raw, new_id = self._fitting(draft)
        entry = LogEntry(lamport, self.me, lamport, len(raw))
        self.log.add(new_id, entry, draft.history_ids, head=True)
        message = replace(draft, message_id=new_id)
        self.snapshots.note(message)
        self._dialect.received(new_id)
        effects: list[Effect] = [
            fx.ClockSet(lamport),
            fx.Logged(message, entry, raw, self._prove(raw)),
            fx.BroadcastBytes(new_id, raw, Purpose.CONTENT),
        ]
        self.outgoing.add(new_id, raw, lamport, now)
        effects += self._delivery.evict()
        self.sync.sent(now, content=True)
        return new_id, effects

    def must_wait(self, now: Time) -> bool:
        """Whether so many messages are unacknowledged, and somebody is there, that another one
        should wait."""
        return self.outgoing.full and self.group.anybody(now)

    def send_ephemeral(self, content: bytes, segment: Segment | None = None) -> list[Effect]:
        """A message without any guarantee. Raises ValueError like `send`."""
        if not content:
            raise ValueError("an ephemeral message needs content")
        nonce = f"{self._rng.getrandbits(64):016x}"
        draft = Message(
            message_id=nonce,
            channel_id=self.channel_id,
            sender_id=self.me,
            content=content,
            segment=segment,
        )
        raw, new_id = self._fitting(draft)
        return [fx.BroadcastBytes(new_id, raw, Purpose.EPHEMERAL)]

    # Snapshots

    def give_snapshot(
        self, until: int, digest: bytes, state: bytes, now: Time, arrival: int = 0
    ) -> list[Effect]:
        """State that our application's state of all messages with clocks up to `until` has this
        digest; `state` is it, as it is handed out, and `arrival` how far it had what arrived.
        Raises ValueError for a clock ahead of ours."""
        if not 0 < until <= self.clock.wall(now):
            raise ValueError(f"a snapshot is of what has been said, not up to {until}")
        _, effects = self.send(digest, now, snapshot=until)
        return [fx.SnapshotKept(until, digest, state, arrival), *effects]

    def _snapshot_answered(
        self, ask: fx.AskSnapshot, response: fx.Response, pulled: list[ReceivedMessage], now: Time
    ) -> list[Effect]:
        """`ask.peer` has handed out a part of a snapshot, with the messages that state it."""
        if not self._catchup.awaits(ask):
            return []
        part, size = response.state, response.state_size
        state, self._state = (self._state if ask.offset else b"") + part, b""
        if part and len(state) < size <= self.params.max_content:
            self._state = state
            rest = replace(ask, offset=len(state))
            return self._catchup.snapshot_answered(ask, None, rest, now)
        try:
            digest = hashlib.sha256(self._opened(state)).digest()
        except Exception:  # the cipher's
            digest = b""
        statements = [r.message for r in pulled if r.way is Way.RELAYED]
        until, members = signed_by(statements, digest)
        if members < ask.signers or not self._joining.pending:
            return self._catchup.snapshot_answered(ask, None, None, now)
        kept = fx.SnapshotKept(until, digest, state)
        return [kept, *self._catchup.snapshot_answered(ask, until, None, now)]

    @property
    def joining(self) -> bool:
        """Whether it isn't known yet where our log begins."""
        return self._joining.pending

    def join_without(self, now: Time) -> list[Effect]:
        """Nobody has a snapshot: we take everything."""
        return self._joining.begin(0, now) if self._joining.pending else []

    def forget(self, until: int) -> list[Effect]:
        """A snapshot stands for all messages with clocks up to `until`."""
        self._joining.restore(max(until, self.log.since))
        return [fx.JoinedAt(self.log.since)]

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
        history = message.history_ids
        current = received.way is Way.BROADCAST and sender != self.me
        if current:
            if not self.group.anybody(now):
                self.outgoing.postpone(now)
            self.group.note(sender, now)
            if self.params.repair:
                self._hear_requests(message, now, effects)
        if sender != self.me:
            self._review_acks(message, history, now, effects)
        if kind is Kind.CONTENT:
            self._receive_content(received, history, now, effects)
            self._want_more(now, effects)
        elif current:
            # A sync message is no message to wait for: what it names is looked for at once.
            unmet = self._delivery.unmet(history)
            self._want_unknown(message, unmet, received.source, now, effects)
        if current:
            named = [message.message_id, *history]
            self.sync.note_message(named, sender, self.log.heads, now)
        return effects

    def _receive_ephemeral(self, message: Message) -> list[Effect]:
        if message.sender_id == self.me:
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
        if new_id in self.log or new_id in self.incoming:
            self._receive_again(received, now, effects)
            return
        lamport = message.lamport or 0
        wall = self.clock.wall(now)
        if self.clock.ahead(lamport, wall) and lamport > 1 + self._delivery.newest(history):
            effects.append(fx.Discarded(sender, DiscardReason.CLOCK_AHEAD))
            effects.append(fx.ClockAhead(sender, (lamport - wall) / 1000))
            return
        if self._joining.pending:
            if self._catchup.asks_somebody:
                effects.append(fx.Discarded(sender, DiscardReason.JOINING))
                return
            snapshot = self._joining.signers is not None
            effects += self._joining.begin(0 if snapshot else max(0, lamport - 1), now)
        if self.log.is_old((lamport, new_id), sender):
            effects.append(fx.Discarded(sender, DiscardReason.TOO_OLD))
            self._delivery.pass_by(new_id, effects)
            return
        unmet = dict.fromkeys(self._delivery.unmet(history))
        if unmet and not self._make_room(sender, len(received.raw), now, effects):
            effects.append(fx.Discarded(sender, DiscardReason.INCOMING_FULL))
            return
        self._dialect.received(new_id)
        if sender != self.me and (received.way is Way.BROADCAST or received.source == sender):
            # Its author waits to hear that somebody has it, also one that hands it out itself.
            self.sync.received(message.key, sender, now)
        want = self.wants.found(new_id)
        if want is not None:
            effects.append(fx.Found(new_id, now - want.since))
        if not unmet:
            self._delivery.deliver(Waiting(received, unmet), effects)
            self.sync.start(now)
            return
        self.incoming.add(received, unmet, now)
        effects.append(fx.Missing(new_id, tuple(unmet)))
        self._want_unknown(message, unmet, received.source, now, effects)

    def _make_room(self, sender: SenderId, size: int, now: Time, effects: list[Effect]) -> bool:
        room, left = self.incoming.make_room(sender, size)
        for waiting in left:
            left_id, author = waiting.message.message_id, waiting.message.sender_id
            effects.append(fx.Discarded(author, DiscardReason.INCOMING_FULL))
            if self.incoming.needs(left_id):
                clock = waiting.message.lamport or 0
                self.wants.add(
                    left_id, author, author, None, now, clock=clock, pull_after=PULL_DELAY
                )
        return room

    def _receive_again(self, received: ReceivedMessage, now: Time, effects: list[Effect]) -> None:
        message, sender = received.message, received.message.sender_id
        self._responses.seen(message.message_id)
        if sender == self.me:
            effects.append(fx.Discarded(sender, DiscardReason.OWN_ECHO))
            return
        effects.append(fx.Discarded(sender, DiscardReason.DUPLICATE))
        if message.message_id in self.log and received.way is Way.BROADCAST:
            # Its author sends it again, and waits to hear that somebody has it.
            self.sync.received(message.key, sender, now)

    def _review_acks(
        self, message: Message, history: list[MessageId], now: Time, effects: list[Effect]
    ) -> None:
        own_seen = self.log.own_seen(history)
        if own_seen:
            lacks = own_seen if message.gaps_more else self.log.own_seen(message.gaps)
            effects += self.outgoing.review(message.sender_id, own_seen, lacks, message.since)
        effects += self._dialect.review(message, self.outgoing, now)

    def _hear_requests(self, message: Message, now: Time, effects: list[Effect]) -> None:
        for request in message.repair_request[:HONOURED]:
            self.wants.asked_by_other(request.message_id, now)
            entry = self.log.get(request.message_id)
            if entry is not None:
                effects += self._responses.requested(
                    request.message_id,
                    entry.sender_id,
                    entry.size,
                    message.sender_id,
                    self.group.count(now),
                    now,
                )

    def _want_unknown(
        self,
        message: Message,
        unmet: Iterable[MessageId],
        source: PeerRef | None,
        now: Time,
        effects: list[Effect],
    ) -> None:
        """Look for what a message names and we don't have; the first of it."""
        unknown = [i for i in unmet if i not in self.incoming][:_WANTS]
        if not unknown:
            return
        delay = PULL_DELAY * self._rng.uniform(1.0, 1.5)
        authors = {e.message_id: e.sender_id for e in message.causal_history}
        sender, lamport = message.sender_id, message.lamport or 0
        full = False
        for missing in unknown:
            full |= not self.wants.add(
                missing, authors[missing], sender, source, now, clock=lamport, pull_after=delay
            )
        if full:
            effects.append(fx.Discarded(message.sender_id, DiscardReason.WANTED_FULL))

    def _want_more(self, now: Time, effects: list[Effect]) -> None:
        """Look for what else messages wait for, in place of what came or was given up."""
        fewer, self.incoming.fewer = self.incoming.fewer, {}
        for waiting in fewer.values():
            self._want_unknown(waiting.message, waiting.unmet, None, now, effects)

    # Direct streams

    def waiting(self, ids: Iterable[MessageId]) -> list[StoredMessage]:
        """Those of the messages that we have and that wait for others, as they are served."""
        found = [w.received for i in ids if (w := self.incoming.get(i)) is not None]
        return [StoredMessage(r.message.key, r.raw, r.origin, r.message.sender_id) for r in found]

    def compare(self, ask: fx.AskCompare, stored: int, now: Time) -> LogComparison:
        """Answer a peer that compares logs. Our store has `stored` messages."""
        answer = compare(self.log, ask.salt, ask.ranges, stored)
        self._catchup.asked_by(ask, answer, now)
        return answer

    def peer_up(self, peer: PeerRef, now: Time) -> None:
        """`peer` can be asked."""
        if self.peers.up(peer):
            if not self.group.anybody(now):
                self.outgoing.postpone(now)
            self.group.set_peers(len(self.peers), now)
            self._catchup.peer_up(peer, now)
            self.wants.peer_appeared(now)

    def peer_down(self, peer: PeerRef, now: Time) -> None:
        self.peers.down(peer)
        self.group.set_peers(len(self.peers), now)
        self._catchup.peer_down(peer, now)

    def awaits(self, ask: fx.Ask) -> bool:
        """Whether an answer would still be of use."""
        if isinstance(ask, fx.AskIds):
            return any(i in self.wants or i in self.incoming for i in ask.ids)
        return self._catchup.awaits(ask)

    def answered(
        self,
        ask: fx.Ask,
        response: fx.Response,
        accept: Callable[[StoredMessage, PeerRef], ReceivedMessage | None],
        now: Time,
        *,
        more: bool = False,
    ) -> list[Effect]:
        """`ask.peer` has answered. `accept` says which of its messages are what they should be.
        `more`: it is the first part of a page, of which more is there."""
        peer = ask.peer
        ids_only = isinstance(ask, fx.AskRange) and ask.ids_only
        items = () if ids_only else response.items
        pulled = [r for item in items if (r := accept(item, peer)) is not None]
        if isinstance(ask, fx.AskSnapshot):
            return self._snapshot_answered(ask, response, pulled, now)
        if isinstance(ask, fx.AskIds):
            pulled = [r for r in pulled if r.message.message_id in ask.ids]
        elif more:
            self._catchup.page_comes(peer, now)
        effects = [e for received in pulled for e in self.receive(received, now)]
        match ask:
            case fx.AskIds(ids=ids):
                said = {r.message.message_id for r in pulled if r.way is not Way.UNPROVEN}
                said.update(unknown := [i for i in ids if i in frozenset(response.unknown_ids)])
                self.peers.answered(peer)
                wall, since = self.clock.wall(now), self.log.since
                self.wants.not_had(peer, unknown, now, wall=wall, gone=response.gone, since=since)
                self._catchup.missing(now)
                rest = tuple(i for i in ids if i not in said)
                if rest and said:
                    effects.append(fx.AskIds(peer, rest))  # the page was full
            case fx.AskCompare() if response.comparison is not None:
                effects += self._look_for(response.comparison.keys, peer, now)
                effects += self._catchup.compared(peer, response.comparison, now)
            case fx.AskCompare():
                effects += self.failed(ask, now)
            case fx.AskRange() if not more:
                keys = tuple(item.key for item in response.items) if ids_only else ()
                if not self._joining.pending:
                    effects += self._look_for(keys, peer, now)
                effects += self._catchup.range_answered(peer, keys, response.next, now)
        return effects if more else effects + self.poll(now)

    def failed(self, ask: fx.Ask, now: Time) -> list[Effect]:
        """There was no usable answer."""
        self.peers.failed(ask.peer, now)
        if isinstance(ask, fx.AskIds):
            self.wants.failed(ask.ids, now)
        else:
            self._catchup.failed(ask.peer, now)
        return []

    # Time

    def deadline(self) -> Time:
        """When `poll` has something to do."""
        return min(
            self.outgoing.next(),
            self.incoming.next(),
            self.wants.next(),
            self._responses.next(),
            self.sync.next(),
            self._catchup.next(),
        )

    def poll(self, now: Time) -> list[Effect]:
        """The periodic sweeps, as far as they are due (S11-S13)."""
        effects = self.outgoing.poll(now, alone=not self.group.anybody(now))
        effects += self.wants.poll(now, lambda clock: self._catchup.brings(clock, now))
        given_up = self.wants.ended(now) + self.incoming.overdue(now)
        self._delivery.give_up(given_up, effects)
        self._want_more(now, effects)
        effects += self._responses.poll(now)
        effects += self._catchup.poll(now)
        if self.wants.overdue:
            self.sync.hasten(now)
        if self.sync.next() <= now:
            effects += self._send_sync(now)
        return effects

    # Steps

    def _heads(self) -> list[MessageId]:
        """What a message of ours names: everything else is among the ancestors of these.

        Our last message always is, so that ours form a chain: a member that has one has those
        before it.
        """
        heads, last = list(self.log.heads), self.outgoing.last
        most = min(MAX_HEADS, self.params.max_message // 8 // _HEAD)
        if len(heads) >= most:
            heads = self._rng.sample(heads, len(heads))
            heads = sorted(heads, key=self.log.said_by_its_sender, reverse=True)[: most - 1]
        if last is not None and last in self.log and self.log.own_seen(heads) < self.outgoing.clock:
            heads.append(last)
        return heads

    def _draft(self, lamport: int, heads: list[MessageId], now: Time) -> Message:
        """A message with what it tells of our log, and what we miss."""
        tombstones = self._delivery.tombstones
        gaps = tuple(tombstones)[-MAX_GAPS:]
        draft = Message(
            channel_id=self.channel_id,
            sender_id=self.me,
            lamport=lamport,
            causal_history=tuple(map(HistoryEntry, heads)),
            repair_request=self.wants.take_requests(now),
            gaps=gaps,
            gaps_more=len(gaps) < len(tombstones) or self._delivery.forgotten,
            since=self.log.since,
        )
        return self._dialect.fill(draft, self.log)

    def _fitting(self, draft: Message) -> tuple[bytes, MessageId]:
        """A message's bytes and id. Raises ValueError where it's too large."""
        raw, message_id = self._codec.encode(draft)
        if len(raw) > self.params.max_message:
            raise ValueError(
                f"the message has {len(raw)} bytes with its history, "
                f"at most {self.params.max_message} can be sent"
            )
        return raw, message_id

    def _look_for(self, keys: Iterable[Key], peer: PeerRef, now: Time) -> list[Effect]:
        """What `peer` has and we don't."""
        effects: list[Effect] = []
        for key in keys:
            known = key[1] in self.log or key[1] in self.incoming
            if not (known or self.log.passed(key[1]) or self.log.below_floor(key)):
                room = self.wants.add(
                    key[1], None, f"peer:{peer}", peer, now, clock=key[0], pull_after=0.0
                )
                if not room:
                    effects.append(fx.Discarded(peer, DiscardReason.WANTED_FULL))
        return effects

    def _send_sync(self, now: Time) -> list[Effect]:
        self.sync.sent(now)
        heads, wall = self._heads(), self.clock.wall(now)
        if not heads and not self.wants.overdue:
            return []
        if self.clock.refused(wall):
            return []
        # Beyond what is taken for itself a message must follow the clock of one that was taken.
        ahead = self.clock.ahead(self.clock.value + 1, wall)
        lamport = self.clock.value if ahead else self.clock.tick(now)
        draft = self._draft(lamport, heads, now)
        name = self._dialect.name(self.me, self.channel_id, lamport, b"")
        raw, new_id = self._codec.encode(replace(draft, message_id=name))
        return [fx.ClockSet(lamport), fx.BroadcastBytes(new_id, raw, Purpose.SYNC)]

    def _restore(self, restored: Restored, now: Time) -> None:
        self.clock.value = max(self.clock.value, restored.clock)
        self.log.departed = dict(restored.departed)
        self.outgoing.restore_acks(restored.acks)
        for stored in restored.log:
            self._restore_logged(stored, now)
        if restored.since is not None or len(self.log):
            self._joining.restore(restored.since or 0)
        self.log.floor = max(filter(None, (restored.floor, self.log.floor)), default=None)
        for lost in restored.tombstones:
            self._delivery.bury(lost)
        for passed in restored.passed:
            self.log.pass_by(passed)
        self._dialect.restore(self.log)
        for damaged in restored.damaged:
            self.wants.add(damaged, None, self.me, None, now, clock=0, pull_after=0.0)
        if len(self.log):
            self.sync.start(now)

    def _restore_logged(self, stored: StoredMessage, now: Time) -> None:
        """The messages of our log come in its order, so that each comes after its ancestors."""
        (lamport, message_id), message = stored.key, self._codec.decode(stored.raw, stored.key[0])
        sender = message.sender_id or stored.sender_id
        history = message.history_ids
        own_seen = lamport if sender == self.me else self.log.own_seen(history)
        entry = LogEntry(lamport, sender, own_seen, len(stored.raw))
        self.snapshots.note(replace(message, sender_id=sender, message_id=message_id))
        self.log.add(message_id, entry, history, head=True)
        if sender == self.me:
            self.outgoing.restore(message_id, lamport, stored.raw, now)
