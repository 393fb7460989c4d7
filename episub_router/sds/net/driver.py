"""Drives one participant on trio: commit first, then let the network and the application see."""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.sds.content.contents import ContentCipher, Contents
from episub_router.sds.content.events import EventFeed
from episub_router.sds.content.messages import ContentUnreadable, Damaged
from episub_router.sds.interop import Interop
from episub_router.sds.net.access import access_of, store_key
from episub_router.sds.net.asking import Asker, Step
from episub_router.sds.net.exchange import Authorizer, server_of
from episub_router.sds.net.intake import Intake, Rejected
from episub_router.sds.net.outbox import PublishQueue, RateLimit
from episub_router.sds.net.topic import SharedTopic, join
from episub_router.sds.net.tracing import ChannelTrace
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Effect
from episub_router.sds.protocol.entry import Key, Restored
from episub_router.sds.protocol.message import (
    Message,
    MessageId,
    ReceivedMessage,
    Segment,
)
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.store.values import StoreFullError
from episub_router.sds.wire.codec import Codec, attach_origin
from episub_router.util.trio_only import check_not_asyncio

P = ParamSpec("P")
T = TypeVar("T")

_INBOX = 4096
_EPHEMERAL = 256
_BATCH = 256
_ALONE = 1.0
"""Seconds between two looks of a `send` that waits at whether somebody is still there."""
_FULL_PAUSE = 1.0
"""Seconds until it is tried again to store something on a full disk."""

ChannelEvent = fx.Notice | Rejected | Damaged | ContentUnreadable


@dataclass(eq=False, kw_only=True)
class ChannelDriver:
    """One channel of one topic. All calls of the participant happen under one lock."""

    pubsub: Pubsub
    topic_name: str
    channel_id: str
    sender_id: str
    store: SqliteStore
    params: SdsParams
    interop: Interop | None
    bind_sender: bool
    cipher: ContentCipher | None = None
    join_last: int | None = None
    join_snapshot: int | None = None
    authorize: Authorizer | None = None
    rate: RateLimit | None = None

    def __post_init__(self) -> None:
        self.listens_to = self.channel_id
        self.store_key = store_key(self.topic_name, self.channel_id)
        self.access = access_of(self.store)
        self.codec = self.interop.codec(self.params, wall) if self.interop else Codec(self.params)
        self.counts: Counter[str] = Counter()
        self.ephemeral: deque[Message] = deque(maxlen=_EPHEMERAL)
        self._changed = trio.Event()
        self.participant: Participant
        self.nursery: trio.Nursery
        self._topic: SharedTopic | None = None
        self._lock = trio.Lock()
        self._inbox: deque[rpc_pb2.Message] = deque()
        self._wake = trio.Event()
        self.outbox = PublishQueue(
            self.pubsub, self.topic_name, self.counts, self._published, self.rate
        )
        self.peers: dict[ID, None] = {}
        self._full = False
        """Whether the store had no room at the last commit."""
        self.events: EventFeed[ChannelEvent] = EventFeed(self.counts)
        self.tell = self.events.tell
        self.intake = Intake(self.topic_name, self.codec, bind_sender=self.bind_sender)
        self.asker = Asker(self.pubsub.host, self)
        self.contents = Contents(
            self.codec,
            self.params,
            place=(self.topic_name, self.channel_id),
            cipher=self.cipher,
            of_store=self.of_store,
        )
        trace = getattr(self.pubsub, "trace", None)
        where = self.topic_name, self.channel_id, self.sender_id
        self._trace = trace and ChannelTrace(trace, *where)

    async def start(self, nursery: trio.Nursery) -> None:
        """Load the state, join the topic, and work in `nursery` until it is cancelled."""
        self.nursery = nursery
        await self._load()
        # py-libp2p numbers messages from the second of its start: after a quick restart
        # numbers repeat, and others drop the messages as seen.
        self.pubsub.counter = max(self.pubsub.counter, time.time_ns())
        self._topic = await join(self.pubsub, self.topic_name, self)
        self.access.purged[self.store_key] = self._purged
        server_of(self.pubsub.host).add(self)
        nursery.start_soon(self._work)
        nursery.start_soon(self.outbox.run)

    async def _load(self) -> None:
        """The participant as its store has it, which is how the network knows it."""
        now = trio.current_time()

        def load() -> tuple[Participant, Restored | None]:
            saved = self.store.load(self.store_key, self.sender_id, self.params.log_limit)
            return Participant(
                self.sender_id,
                self.channel_id,
                self.params,
                codec=self.codec,
                prove=self.outbox.prove if self.bind_sender else lambda raw: b"",
                dialect=self.interop.dialect() if self.interop else None,
                rng=random.Random(),
                now=now,
                wall_offset=time.time() - now,
                restored=saved,
                join_last=self.join_last,
                join_snapshot=self.join_snapshot,
                opened=lambda state: self.contents.opened(state, ""),
            ), saved

        self.participant, saved = await self.access.run(load)
        if saved is not None and saved.damaged:
            self.counts["damaged"] += len(saved.damaged)
            self.tell(Damaged(tuple(saved.damaged)))
            if self._trace is not None:
                self._trace.lost_after_delivery(saved.damaged)
        for peer in self.peers:
            self.participant.peer_up(peer.to_base58(), now)

    @property
    def running(self) -> bool:
        """Whether the state is loaded and the topic joined."""
        return self._topic is not None

    async def stop(self) -> None:
        """Leave the topic and wake up what waits. The nursery has been cancelled."""
        if self._topic is None:
            return
        server_of(self.pubsub.host).remove(self)
        self._changed.set()
        self.events.close()
        self.access.purged.pop(self.store_key, None)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 2.0):
            await self._topic.leave(self)

    async def of_store(
        self, call: Callable[Concatenate[SqliteStore, str, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """What a method of the store says of this channel."""
        return await self.access.run(lambda: call(self.store, self.store_key, *args, **named))

    # Sending

    @property
    def closed(self) -> bool:
        return self.nursery.cancel_scope.cancel_called

    async def _check_open(self) -> None:
        if self.closed:
            await trio.lowlevel.checkpoint()  # where tasks of ours end
            raise trio.ClosedResourceError("the channel was closed")

    async def send(self, content: bytes) -> MessageId:
        """On disk when this returns; published soon after.

        Waits while `outgoing_limit` messages are unacknowledged and somebody is there.
        """
        parts = await self.contents.cut(content, self.sender_id)
        while True:
            while self.participant.must_wait(self._now()):
                with trio.move_on_after(_ALONE):  # that all are gone is no event
                    await self.change()
            async with self._lock:  # which others that wait may have had before
                if not self.participant.must_wait(self._now()):
                    await self._check_open()
                    await self.check_room()
                    return await self._send(parts)

    async def _send(self, parts: Sequence[tuple[bytes, Segment | None]]) -> MessageId:
        try:
            effects: list[Effect] = []
            for part, segment in parts:
                message_id, more = self.participant.send(part, self._now(), segment=segment)
                effects += more
        except Exception:
            if len(parts) > 1:
                await self._go_back()
            raise
        await self._carry_out(effects)
        return message_id

    async def changes(self) -> trio.Event:
        """What is set when something is delivered or acknowledged. Raises ClosedResourceError where
        the channel is closed."""
        await self._check_open()
        changed = self._changed  # what changes from now on sets it
        await trio.lowlevel.checkpoint()
        return changed

    async def change(self) -> None:
        """Wait until something is. Raises ClosedResourceError likewise."""
        await (await self.changes()).wait()

    # What comes in

    def take(self, message: rpc_pb2.Message, channel_id: str | None) -> None:
        """A pubsub message of this channel, or of no channel at all. Never blocks."""
        if len(self._inbox) >= _INBOX:
            self.counts["inbox-full"] += 1  # as if the network had lost it: it is repaired
            return
        self._inbox.append(message)
        self._wake.set()

    def _purged(self, places: Sequence[Key]) -> None:
        """The store has removed these messages."""
        self.participant.log.purge(places)

    async def _work(self) -> None:
        while True:
            self._wake = trio.Event()
            deadline = self.participant.deadline()
            if not self._inbox:
                with trio.move_on_at(deadline):
                    await self._wake.wait()
            if not self._inbox and trio.current_time() < deadline:
                continue
            try:
                await self._step()
            except StoreFullError as error:
                self.counts["store-full"] += 1
                self.tell(fx.StoreFull(str(error)))
                await trio.sleep(_FULL_PAUSE)

    async def _step(self) -> None:
        async with self._lock:
            await self.check_room()
            now = self._now()
            effects: list[Effect] = []
            for _ in range(min(len(self._inbox), _BATCH)):
                effects += self._receive(self._inbox.popleft(), now)
            effects += self.participant.poll(now)
            await self._carry_out(effects)

    def _receive(self, carrier: rpc_pb2.Message, now: float) -> list[Effect]:
        received = self.accepted(self.intake.broadcast(carrier))
        return [] if received is None else self.participant.receive(received, now)

    def accepted(self, received: ReceivedMessage | Rejected) -> ReceivedMessage | None:
        if isinstance(received, Rejected):
            self.counts[received.reason] += 1
            self.tell(received)
            return None
        return received

    # Effects

    async def act(self, step: Step) -> None:
        """What a step of the participant asks for."""
        async with self._lock:
            await self._check_open()
            await self._carry_out(step(self.participant, self._now()))
        self._wake.set()

    async def _carry_out(self, effects: list[Effect]) -> None:
        """Commit, then the rest. A cancellation comes before or after, never between."""
        if not effects:
            return
        with trio.CancelScope(shield=True):
            changes = [e for e in effects if isinstance(e, fx.Change)]
            if changes:
                try:
                    await self.of_store(SqliteStore.commit, changes)
                except StoreFullError:
                    self._full = True
                    await self._go_back()
                    raise
                except BaseException:
                    # The participant is ahead of its store: it must not go on.
                    self.nursery.cancel_scope.cancel()
                    raise
        delivered = False
        for effect in effects:
            if self._trace is not None:
                self._trace.noticed(effect)
            match effect:
                case fx.BroadcastBytes(message_id=message_id, raw=raw, purpose=purpose):
                    self._post(message_id, raw, purpose)
                case fx.Rebroadcast(message_id=message_id):
                    self.nursery.start_soon(self._republish, message_id)
                case fx.AskIds() | fx.AskCompare() | fx.AskRange() | fx.AskSnapshot():
                    self.nursery.start_soon(self.asker.ask, effect)
                case fx.DeliverEphemeral(message=message):
                    self.ephemeral.append(message)
                    delivered = True
                case fx.Discarded(reason=reason):
                    self.counts[reason.value] += 1
                case fx.Acknowledged() | fx.Expired():
                    delivered = True
                    self.tell(effect)
                case fx.Logged() | fx.JoinedAt():
                    delivered = True
                case fx.Notice():
                    self.tell(effect)
        if delivered:
            self._change()
        self._wake.set()

    async def check_room(self) -> None:
        """Raises StoreFullError where the store was full and still is: to go back to what is stored
        takes as long as opening it, and is not done for each attempt."""
        if self._full:
            await self.access.run(lambda: self.store.check_room(2 * self.params.max_message))
            self._full = False

    async def _go_back(self) -> None:
        """The participant is ahead of its store: back to what is there."""
        self.outbox.forget()
        await self._load()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # The topic

    def _post(self, message_id: MessageId, raw: bytes, purpose: fx.Purpose) -> None:
        posted = self.outbox.post(message_id, raw, purpose)
        if not posted and purpose is fx.Purpose.EPHEMERAL:
            self.tell(fx.EphemeralDropped(message_id))
        if posted and self._trace is not None:
            self._trace.sent(self.codec, raw, purpose)

    def _published(self, message_id: MessageId) -> None:
        own = self.participant.outgoing.get(message_id)
        if own is not None and not own.published:
            own.published = True
            self._change()

    async def _republish(self, message_id: MessageId) -> None:
        for stored in await self.of_store(SqliteStore.get, [message_id]):
            own = stored.sender_id == self.sender_id
            raw = stored.raw if own else attach_origin(stored.raw, stored.origin)
            self._post(message_id, raw, fx.Purpose.REPAIR)

    # Direct streams

    def peers_changed(self, present: Collection[ID]) -> None:
        """These are the peers that can be asked now."""
        now = self._now()
        for peer in self.peers:
            if peer not in present:
                self.participant.peer_down(peer.to_base58(), now)
        for peer in present:
            if peer not in self.peers:
                self.participant.peer_up(peer.to_base58(), now)
        self.peers = dict.fromkeys(present)
        self._wake.set()

    def _now(self) -> float:
        now = trio.current_time()
        self.participant.clock.wall_offset = time.time() - now
        self.participant.sync.channels = server_of(self.pubsub.host).channels
        return now


class Entered:
    """What runs while its block does."""

    @abstractmethod
    def _run(self) -> AbstractAsyncContextManager[None]: ...

    async def __aenter__(self) -> Self:
        check_not_asyncio()
        self._running = self._run()
        await self._running.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._running.__aexit__(*error)


@asynccontextmanager
async def unwrapped_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery whose block raises its own error, in no group. The block cancels it at its end."""
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:
            failed = error
    if failed is not None:
        raise failed


def wall() -> int:
    return int(time.time() * 1000)
