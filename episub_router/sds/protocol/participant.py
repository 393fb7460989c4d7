"""One participant of one channel: the protocol steps of SDS over its buffers (S07-S14)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from episub_router.protocol.types import Time
from episub_router.sds.bloom import FilterCodec
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.causal.delivery import CausalDelivery
from episub_router.sds.protocol.causal.frontier import Frontier
from episub_router.sds.protocol.causal.incoming import Waiting
from episub_router.sds.protocol.causal.log import Log
from episub_router.sds.protocol.clock import ClockAheadError, LamportClock
from episub_router.sds.protocol.effects import DiscardReason, Effect, PeerRef, Purpose
from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.members import Members
from episub_router.sds.protocol.message import HistoryEntry, Message, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams, WireFormat
from episub_router.sds.protocol.peers import StreamPeers
from episub_router.sds.protocol.presence import Presence
from episub_router.sds.protocol.range_hash import RangeHash
from episub_router.sds.protocol.received import ReceivedMessage
from episub_router.sds.protocol.reception import Reception
from episub_router.sds.protocol.reconciliation.catchup import Catchup
from episub_router.sds.protocol.reconciliation.joining import Joining
from episub_router.sds.protocol.reconciliation.ranges import LogComparison, compare
from episub_router.sds.protocol.repair.responses import Responses
from episub_router.sds.protocol.repair.wants import Wants
from episub_router.sds.protocol.restored import Restored
from episub_router.sds.protocol.sending.composer import Composer
from episub_router.sds.protocol.sending.outgoing import Outgoing
from episub_router.sds.protocol.sending.sync import SyncTimer

PRESENT_FOR = 3.0
"""Sync intervals for which a member counts as there after its last message (ours)."""
QUIET_FOR = 2.0
"""Sync intervals without anything missing until messages say less (ours)."""


class Participant:
    """Events and `now` (seconds, monotonic) in, effects out; see `effects` for their order.

    `prove` gives the origin that is kept with a message of our own. `verify_ids`: a message's id
    must be the hash that we give to our own, so that nobody can take another's. `wall_offset` is
    Unix time minus `now`; the driver may move it as its clock is set. `join_last`: a newcomer takes
    so many of the messages that there are, None is all.
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
        join_last: int | None = None,
    ) -> None:
        self.me = me
        self.channel_id = channel_id
        self.params = params
        self._prove = prove
        self.clock = LamportClock(wall_offset, now, int(params.max_clock_lead * 1000))
        self.log = Log()
        self.peers = StreamPeers(params)
        self.outgoing = Outgoing(params, rng, filters.base_hash)
        self.presence = Presence(PRESENT_FOR * params.sync_interval, now)
        self.wants = Wants(me, params, rng, self.peers, self.presence)
        self.members = Members(params)
        self._responses = Responses(me, params)
        self.sync = SyncTimer(me, params, rng)
        self._frontier = Frontier(self.log, filters, params, rng)
        self._delivery = CausalDelivery(
            params, self.clock, self.log, self._frontier, self.wants, self.presence
        )
        self.incoming = self._delivery.incoming
        tombstones = self._delivery.tombstones
        self._composer = Composer(
            me, channel_id, params, encode, rng, self._frontier, tombstones, self.log
        )
        self._joining = Joining(join_last, self.log, self.clock)
        self._catchup = Catchup(params, rng, self.peers, self.log, self._joining)
        self._reception = Reception(
            me,
            channel_id,
            params,
            clock=self.clock,
            log=self.log,
            delivery=self._delivery,
            frontier=self._frontier,
            wants=self.wants,
            outgoing=self.outgoing,
            members=self.members,
            presence=self.presence,
            responses=self._responses,
            sync=self.sync,
            catchup=self._catchup,
            joining=self._joining,
            filters=filters,
            verify_ids=verify_ids,
        )
        if restored is not None:
            self._restore(restored, now)

    # Sending (S07, S14)

    def send(
        self,
        content: bytes,
        now: Time,
        *,
        part: bool = False,
        parts: tuple[MessageId, ...] = (),
    ) -> tuple[MessageId, list[Effect]]:
        """A new message. `part`: a piece of a content, which a later one with all `parts` ends.

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
        lamport = self.clock.tick(wall)
        short = self._short(now)
        history = self._frontier.history(short=short)
        requests = self.wants.take_requests(now)
        new_id, raw = self._composer.content(
            content, lamport, history, requests, short=short, part=part, parts=parts
        )
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
        effects += self.outgoing.add(new_id, raw, lamport, now)
        effects += self._delivery.evict()
        self.sync.sent(self.members.count(now), now, content=True)
        return new_id, effects

    def must_wait(self, now: Time) -> bool:
        """Whether so many messages are unacknowledged, and somebody is there, that another one
        should wait."""
        return self.outgoing.full and self.presence.anybody(now)

    def send_ephemeral(self, content: bytes) -> list[Effect]:
        """A message without any guarantee. Raises ValueError like `send`."""
        if not content:
            raise ValueError("an ephemeral message needs content")
        new_id, raw = self._composer.ephemeral(content)
        return [fx.BroadcastBytes(new_id, raw, Purpose.EPHEMERAL)]

    # Receiving (S08)

    def receive(self, received: ReceivedMessage, now: Time) -> list[Effect]:
        """A message from the network, of whichever kind and way."""
        return self._reception.receive(received, now)

    # Direct streams

    def waiting(self, ids: Iterable[MessageId]) -> list[tuple[Key, Waiting]]:
        """Those of the messages that we have and that wait for others, with their places."""
        found = [w for i in ids if (w := self.incoming.get(i)) is not None]
        return [((self._delivery.lamport(w.message), w.message.message_id), w) for w in found]

    def compare(
        self,
        salt: bytes,
        ranges: Sequence[RangeHash],
        stored: int,
        gone: Key | None,
        *,
        by: PeerRef,
        now: Time,
    ) -> LogComparison:
        """Answer a peer that compares logs. Our store has `stored` messages, and what it had up to
        `gone` it may have no more."""
        answer = compare(self.log, salt, ranges, stored, gone)
        self._catchup.asked_by(by, ranges, answer, now)
        return answer

    def purged(self, ids: Iterable[MessageId], floor: Key) -> None:
        """The store has removed these, and what it has not up to `floor` needn't come again."""
        self.log.purge(ids, floor)

    def peer_up(self, peer: PeerRef, now: Time) -> None:
        """`peer` can be asked."""
        if self.peers.up(peer):
            if not self.presence.anybody(now):
                self.outgoing.postpone(now)
            self._count_peers(now)
            self._catchup.peer_up(peer, now)
            self.wants.peer_appeared(now)

    def peer_down(self, peer: PeerRef, now: Time) -> None:
        self.peers.down(peer)
        self._count_peers(now)
        self._catchup.peer_down(peer, now)

    def _count_peers(self, now: Time) -> None:
        self.members.peers = len(self.peers)
        self.presence.peers(len(self.peers), now)

    def awaits(self, ask: fx.AskIds | fx.AskCompare | fx.AskRange) -> bool:
        """Whether an answer would still be of use."""
        if isinstance(ask, fx.AskIds):
            return any(i in self.wants or i in self.incoming for i in ask.ids)
        return self._catchup.awaits(ask)

    def ids_answered(
        self, peer: PeerRef, unknown: tuple[MessageId, ...], gone: Key | None, now: Time
    ) -> list[Effect]:
        """`peer` has answered `AskIds`: it doesn't have these, and up to `gone` it may have had
        them once."""
        self.peers.answered(peer)
        wall = self.clock.wall(now)
        self.wants.not_had(peer, unknown, now, wall=wall, gone=gone is not None)
        effects: list[Effect] = []
        limit = self.params.gone_after
        doubtful = [m for i in unknown for m in self.incoming.doubtful(i, limit)]
        if doubtful:
            ids = tuple(dict.fromkeys(doubtful))[: self.params.pull_batch]
            effects.append(fx.AskIds(peer, ids))
        return effects + self.poll(now)

    def ids_failed(self, peer: PeerRef, asked: tuple[MessageId, ...], now: Time) -> None:
        """`AskIds` got no usable answer."""
        self.peers.failed(peer, now)
        self.wants.failed(asked, now)

    def compared(self, peer: PeerRef, answer: LogComparison, now: Time) -> list[Effect]:
        """`peer` has answered `AskCompare`."""
        effects = self._look_for(answer.keys, peer, now)
        effects += self._catchup.compared(peer, answer, now)
        return effects + self.poll(now)

    def page_comes(self, peer: PeerRef, now: Time) -> None:
        """The answer to `AskRange` is there and is being taken in, part by part."""
        self._catchup.page_comes(peer, now)

    def range_answered(
        self, peer: PeerRef, ids: tuple[Key, ...], more: Key | None, now: Time
    ) -> list[Effect]:
        """`peer` has answered `AskRange`; `ids` where only ids were asked for."""
        effects = self._look_for(ids, peer, now)
        effects += self._catchup.range_answered(peer, more, now)
        return effects + self.poll(now)

    def compare_failed(self, peer: PeerRef, now: Time) -> None:
        """`AskCompare` or `AskRange` got no usable answer."""
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
            self.sync.next(),
            self._catchup.next(),
        )

    def poll(self, now: Time) -> list[Effect]:
        """The periodic sweeps, as far as they are due (S11-S13)."""
        effects = self.outgoing.poll(now, alone=not self.presence.anybody(now))
        effects += self.wants.poll(now, lambda clock: self._catchup.brings(clock, now))
        given_up = self.wants.ended(now) + self.incoming.overdue(now)
        self._delivery.give_up(given_up, effects)
        effects += self._responses.poll(now)
        effects += self._catchup.poll(now)
        if self.wants.overdue:
            self.sync.hasten(now)
        if self.sync.next() <= now:
            effects += self._send_sync(now)
        return effects

    # Steps

    def _short(self, now: Time) -> bool:
        """Whether nothing has been missing for a while, here or where a request came from."""
        return (
            self.params.compact
            and self.params.wire is WireFormat.CURRENT
            and not len(self.incoming)
            and not len(self.wants)
            and now - self.wants.troubled_at > QUIET_FOR * self.params.sync_interval
        )

    def _look_for(self, keys: Iterable[Key], peer: PeerRef, now: Time) -> list[Effect]:
        """What `peer` has and we don't."""
        effects: list[Effect] = []
        for key in keys:
            if not self._delivery.known(key[1]) and not self.log.below_floor(key):
                entry = HistoryEntry(key[1])
                room = self.wants.add(
                    entry, f"peer:{peer}", peer, now, clock=key[0], pull_after=0.0
                )
                if not room:
                    effects.append(fx.Discarded(peer, DiscardReason.WANTED_FULL))
        return effects

    def _send_sync(self, now: Time) -> list[Effect]:
        requests = self.wants.take_requests(now)
        members = self.members.count(now)
        self.sync.sent(members, now)
        if not self.log.heads and not requests:
            return []
        wall = self.clock.wall(now)
        if self.clock.refused(wall):
            return []
        # Beyond what is taken for itself a message must follow the clock of one that was taken.
        ahead = self.clock.ahead(self.clock.value + 1, wall)
        lamport = self.clock.value if ahead else self.clock.tick(wall)
        new_id, raw = self._composer.sync(lamport, requests, short=self._short(now))
        return [fx.ClockSet(lamport), fx.BroadcastBytes(new_id, raw, Purpose.SYNC)]

    @property
    def wall_offset(self) -> float:
        """Unix time minus `now`, in seconds."""
        return self.clock.wall_offset

    @wall_offset.setter
    def wall_offset(self, offset: float) -> None:
        self.clock.wall_offset = offset

    def _restore(self, restored: Restored, now: Time) -> None:
        self.clock.value = max(self.clock.value, restored.clock)
        self._delivery.position = restored.position
        if restored.since is not None or restored.log:
            self._joining.restore(restored.since or 0)
        self.log.floor = restored.floor
        self.log.departed = dict(restored.departed)
        self._delivery.repairing = dict(restored.damaged)
        raws = dict(restored.outgoing)
        ours = []
        for old_id, entry, head in restored.log:
            self.log.add(old_id, entry, (), head=head)
            if entry.sender_id == self.me:
                ours.append((entry.own_seen, old_id))
        ours.sort()
        if ours:
            self.outgoing.sequence, self._frontier.last_own = ours[-1]
        for sequence, old_id in ours[-self.params.tracked_limit :]:
            acked_by = restored.acks.get(old_id, ())
            clock = self.log.key(old_id)[0]
            if old_id in raws:
                self.outgoing.restore(old_id, sequence, raws[old_id], clock, now, acked_by)
            else:
                self.outgoing.remember(old_id, sequence, clock, acked_by)
        self._delivery.tombstones.restore(restored.tombstones)
        self._frontier.restore(
            self.log.newest(self.params.causal_history),
            [received.message.message_id for received in restored.incoming],
        )
        for received in restored.incoming:
            message = received.message
            history = message.history_ids
            unmet = dict.fromkeys(self._delivery.unmet(history))
            self.incoming.add(message, received.raw, received.origin, unmet, now)
        for received in restored.incoming:
            self._reception.want_unknown(received.message, None, now, [])
        for damaged in restored.damaged:
            self.wants.add(HistoryEntry(damaged), self.me, None, now, clock=0, pull_after=0.0)
        if len(self.log):
            self.sync.start(now)
