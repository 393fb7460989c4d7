"""The channel as an application uses it."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.sds.content.contents import ContentCipher, UnreadableError
from episub_router.sds.content.messages import (
    ChannelMessage,
    ContentUnreadable,
    LogItem,
    LogView,
    Snapshot,
)
from episub_router.sds.interop import Interop
from episub_router.sds.net.driver import ChannelDriver, ChannelEvent, Entered, unwrapped_nursery
from episub_router.sds.net.exchange import Authorizer
from episub_router.sds.net.outbox import RateLimit
from episub_router.sds.net.receipt import Receipt
from episub_router.sds.protocol.effects import UnreadDropped
from episub_router.sds.protocol.entry import Key, StoredMessage
from episub_router.sds.protocol.message import MAX_LAMPORT, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from episub_router.sds.store.values import Cursor
from episub_router.sds.wire.codec import MAX_ID

_PAGE = 100
_MOST_OLDER = 4000
_FLUSH = 2.0
"""Seconds to publish what is waiting when a channel is closed."""


class SdsChannel(Entered):
    """A channel of a topic: messages in causal order, nothing lost, nothing twice.

        async with SdsChannel(pubsub, "chat/room-1", store=SqliteStore("room.db")) as channel:
            receipt = await channel.send(b"hello")
            async for message in channel:
                print(message.sender, message.content)

    `sender_id` defaults to the host's peer id. With `bind_sender` (default: where the sender
    id is the peer id and pubsub signs) a message counts as its sender's only if its sender
    published it, or if its sender's signature came with it.

    `join_last`: a channel that is new to its store takes so many of the messages that there are,
    0 is from now on; None is all. `join_snapshot`: it takes the newest snapshot that so many
    members have signed, and what follows: see `snapshot`. `cipher` encrypts contents. `authorize`
    says which peers may read the log over direct streams, by peer id, topic and channel; None is
    all. `rate_limit`: how much is published. `interop`: members of other implementations, see
    `episub_router.sds.interop`.

    Raises ValueError on entering for a topic that someone else reads already, and for a pubsub
    whose message ids are hashes of the content, which would swallow what is sent again.
    """

    def __init__(
        self,
        pubsub: Pubsub,
        topic: str,
        *,
        channel_id: str = "0",
        sender_id: SenderId | None = None,
        store: SqliteStore | None = None,
        params: SdsParams | None = None,
        interop: Interop | None = None,
        bind_sender: bool | None = None,
        join_last: int | None = None,
        join_snapshot: int | None = None,
        cipher: ContentCipher | None = None,
        authorize: Authorizer | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        if join_last is not None and join_last < 0:
            raise ValueError(f"join_last must not be negative: {join_last}")
        if join_snapshot is not None and (join_last is not None or join_snapshot < 1):
            raise ValueError("join_snapshot is a number of members, and not for use with join_last")
        params = params or SdsParams()
        peer_id = pubsub.my_id.to_base58()
        sender_id = peer_id if sender_id is None else sender_id
        if not 0 < len(sender_id.encode()) <= MAX_ID:
            raise ValueError(f"sender_id must have 1 to {MAX_ID} bytes: {sender_id!r}")
        if len(channel_id.encode()) > MAX_ID:
            raise ValueError(f"channel_id must have at most {MAX_ID} bytes")
        signed = pubsub.strict_signing and sender_id == peer_id
        if bind_sender and not signed:
            raise ValueError(
                "bind_sender needs a pubsub that signs and the host's peer id as sender_id"
            )
        self._driver = ChannelDriver(
            pubsub=pubsub,
            topic_name=topic,
            channel_id=channel_id,
            sender_id=sender_id,
            store=MemoryStore() if store is None else store,
            params=params,
            interop=interop,
            bind_sender=signed if bind_sender is None else bind_sender,
            cipher=cipher,
            join_last=join_last,
            join_snapshot=join_snapshot,
            authorize=authorize,
            rate=rate_limit,
        )
        self._reading = trio.Lock()
        self._in_hand: Cursor | None = None
        """Where the iteration is when what it gave last is done with."""
        self._told: Key = (-1, "")
        """Up to where it was told that messages left the log."""
        self._streamed = Cursor()
        """Up to where the application has had the total order."""

    @property
    def id(self) -> str:
        return self._driver.channel_id

    @property
    def addresses(self) -> list[str]:
        """Where others can connect to our host, to join through it."""
        return [str(address) for address in self._driver.pubsub.host.get_addrs()]

    @property
    def sender_id(self) -> SenderId:
        return self._driver.sender_id

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        driver = self._driver
        _refuse_content_ids(driver.pubsub)
        async with unwrapped_nursery() as nursery:
            try:
                await driver.start(nursery)
                nursery.start_soon(driver.access.purge_regularly, driver.counts)
                yield
                with trio.move_on_after(_FLUSH):
                    await driver.outbox.flush()
            finally:
                nursery.cancel_scope.cancel()
                await driver.stop()

    async def send(self, content: bytes) -> Receipt:
        """Send to the group. When this returns the message survives a crash of this process.

        Waits while `outgoing_limit` messages are unacknowledged and somebody is there. What is
        larger than a message may be goes in several. Raises ValueError for content that is empty
        or larger than `max_content`, StoreFullError where the disk is full, and ClockAheadError
        where others would refuse the message's clock.
        """
        message_id = await self._driver.send(content)
        receipt = self.receipt(message_id)
        assert receipt is not None, "a message is tracked when it is sent"
        return receipt

    def receipt(self, message_id: MessageId) -> Receipt | None:
        """The receipt of a message of ours, also one sent before a restart.

        None where it isn't one of our newest thousand.
        """
        own = self._driver.participant.outgoing.get(message_id)
        return Receipt(self._driver, own) if own is not None else None

    async def drain(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 -- False, no error
        """Wait until each of our messages is acknowledged, or expired; at most `timeout` s.

        Returns whether they are. Before leaving without a store on disk, this is what keeps the
        last messages.
        """
        with trio.move_on_after(math.inf if timeout is None else timeout):
            await self._driver.outbox.flush()
            while len(self._driver.participant.outgoing):
                await self._driver.change()
            return True
        return False

    async def send_ephemeral(self, content: bytes) -> None:
        """Send without order, log or repair (S14). Raises ValueError like `send`."""
        (sent,) = await self._driver.contents.cut(content, self.sender_id, whole=True)
        await self._driver.act(lambda participant, now: participant.send_ephemeral(*sent))

    def __aiter__(self) -> SdsChannel:
        return self

    async def __anext__(self) -> ChannelMessage:
        """The next message of others in the total order, as `stream` has it, from where the store
        says that this reader is; ephemeral ones as they come.

        Asking for the next message says that the one before it is done with: after a crash the
        first message to come is the one that wasn't.
        """
        async with self._reading:
            begin = await self._driver.of_store(SqliteStore.reader)
            if self._in_hand is not None and self._in_hand != begin:
                begin = self._in_hand
                await self._driver.of_store(SqliteStore.set_reader, begin)
            message, self._in_hand = await self._next(begin, iterating=True)
            return message

    async def stream(
        self, after: str | None = None, *, hold: float = 0.0
    ) -> AsyncIterator[ChannelMessage]:
        """All messages of the log, ours included, in the group's total order, without end.

        To be folded into a state: keep `message.cursor` with it, and start there again, so that
        each message counts once. What comes after others that it belongs before is `late`, so that
        the state can be made again, or patched. With `hold` (s) a message waits until its clock is
        so far behind our time of day, by which time most have come. What left the log unread is
        missing here, and the event `UnreadDropped` says so.
        """
        cursor = Cursor.read(after)
        while True:
            self._streamed = cursor
            message, cursor = await self._next(cursor, hold=hold)
            yield message

    async def latest(
        self, before: LogItem | ChannelMessage | None = None, limit: int = _PAGE
    ) -> list[ChannelMessage]:
        """The newest messages of the log with their content, newest first, at most `limit`.

        `before`: only those before this place. Also those that the store keeps beyond `log_limit`.
        Costs no more for a long log than for a short one.
        """
        return await self._page(None, _place(before), limit, newest_first=True)

    async def events(self) -> AsyncIterator[ChannelEvent]:
        """Acknowledgements, missing, lost and found messages, rejected bytes and the like, from
        now on."""
        async with self._driver.events.watch() as events:
            async for event in events:
                yield event

    @property
    def log(self) -> LogView:
        """All messages in the group's total order, oldest first, ours included (S06).

        A view that changes as the log does, equal to any sequence of the same places.
        """
        return LogView(lambda: self._driver.participant.log)

    @property
    def members(self) -> dict[SenderId, int]:
        """All that are known, each with the clock (ms) of its newest message in the log; 0 for one
        that was only heard, in the last five minutes."""
        participant = self._driver.participant
        heard = dict.fromkeys(participant.group.present(trio.current_time()), 0)
        return heard | participant.log.newest_by_sender()

    async def history(
        self, after: LogItem | ChannelMessage | None = None, limit: int = _PAGE
    ) -> list[ChannelMessage]:
        """Messages of the log with their content, in total order, at most `limit`.

        Also those that the store keeps beyond `log_limit`.
        """
        return await self._page(_place(after), None, limit)

    async def _page(
        self, after: Key | None, before: Key | None, limit: int, *, newest_first: bool = False
    ) -> list[ChannelMessage]:
        driver, more = self._driver, True
        result: list[ChannelMessage] = []
        while more and len(result) < limit:
            wanted = limit - len(result) + 1  # `before` itself may be there
            size = 2 * wanted * driver.params.max_message  # with proofs
            items = max(_PAGE, wanted)  # most may be segments
            stored, more = await driver.of_store(
                SqliteStore.page, after, before, items, size, newest_first=newest_first
            )
            result += await driver.contents.shown([s for s in stored if s.key != before])
            if newest_first:
                before = stored[-1].key if stored else before
            else:
                after = stored[-1].key if stored else after
        return result[:limit]

    async def older(
        self, before: LogItem | ChannelMessage | None = None, limit: int = _PAGE
    ) -> list[ChannelMessage]:
        """Messages of before our log, newest first, at most `limit` (4,000), as a peer has them.

        `before`: a place; None is where our log begins, as with `join_last`. They are checked like
        all others and become no part of our log. A content of which our log has the last segments
        only is among them. Raises ExchangeError where no peer answers.
        """
        if not 0 < limit <= _MOST_OLDER:
            raise ValueError(f"limit must be 1 to {_MOST_OLDER}: {limit}")
        log, place = self._driver.participant.log, _place(before)
        if place is None and len(log):
            place = log.place(0)
        peers = [peer.to_base58() for peer in self._driver.peers]
        rows: list[StoredMessage] = []
        wanted = limit
        while True:
            begin = rows[0].key if rows else place
            page, more = await self._driver.asker.older(peers, begin, wanted)
            rows = page + rows
            ended = not more or len(rows) > _MOST_OLDER
            wanted -= len(page)
            wanted = 0 if ended else max(wanted, self._driver.contents.part(rows[0]))
            if not wanted:  # here a content begins
                shown = await self._driver.contents.shown(rows)
                if shown or ended:
                    return shown[::-1][:limit]
                wanted = limit

    async def give_snapshot(self, state: bytes, until: int) -> None:
        """State to the group that `state` is what became of all messages with clocks up to `until`.

        Members that make the same of the same messages at the same clocks give newcomers a place to
        begin. Best after `stream(hold=...)` has passed `until`, when nothing comes before it any
        more. What arrived since the stream's last message is late for who begins here. Raises
        ValueError like `send`.
        """
        arrival = self._streamed.arrival
        digest, sealed = hashlib.sha256(state).digest(), self._driver.contents.sealed(state, "")
        await self._driver.act(lambda p, now: p.give_snapshot(until, digest, sealed, now, arrival))

    async def snapshot(self, within: float = 10.0) -> Snapshot | None:
        """The newest snapshot that we gave or joined with; None where there is none.

        With `join_snapshot`, to be called before anything is read: a newcomer waits so many seconds
        for one, and takes all messages after that.
        """
        driver = self._driver
        with trio.move_on_after(within):
            while driver.participant.joining:
                await driver.change()
        await driver.act(lambda participant, now: participant.join_without(now))
        for kept in await driver.of_store(SqliteStore.snapshots):
            cursor = Cursor((kept.until + 1, ""), kept.arrival)
            return Snapshot(driver.contents.opened(kept.state, ""), kept.until, str(cursor))
        return None

    async def forget(self, *, signers: int) -> int:
        """Remove all messages for which a snapshot stands that so many members have signed, and
        that we have; the clock up to which that is, 0 where there is none."""
        driver = self._driver
        kept = {s.until for s in await driver.of_store(SqliteStore.snapshots)}
        agreed = driver.participant.snapshots.agreed(signers)
        until = next((each.until for each in agreed if each.until in kept), 0)
        if until:
            await driver.act(lambda participant, now: participant.forget(until))
        return until

    async def backup(self, path: str | Path) -> None:
        """Copy the store's file as it is now, with all its channels, while it is in use.

        Open the copy in place of the file, never beside it. Raises StoreError for a store that has
        no file.
        """
        await self._driver.access.run(lambda: self._driver.store.backup(path))

    @property
    def stats(self) -> Counter[str]:
        """What was dropped, rejected and published so far, by reason."""
        return self._driver.counts.copy()

    async def _next(
        self, cursor: Cursor, *, hold: float = 0.0, iterating: bool = False
    ) -> tuple[ChannelMessage, Cursor]:
        """What follows for a reader of the total order, and where it is then. `iterating`: only
        what others say, and ephemeral messages before all else."""
        driver = self._driver
        while True:
            changed = await driver.changes()
            try:
                if iterating and driver.ephemeral:
                    ephemeral = driver.ephemeral.popleft()
                    message_id, sender = ephemeral.message_id, ephemeral.sender_id
                    return driver.contents.ephemeral(ephemeral), cursor
                limit = int((time.time() - hold) * 1000) if hold else MAX_LAMPORT
                but = self.sender_id if iterating else ""
                found = await driver.of_store(SqliteStore.following, cursor, limit, but)
                self._say_dropped(cursor, found.gone)
                cursor = found.cursor
                if found.stored is None:
                    self._in_hand = cursor if iterating else self._in_hand
                    with trio.move_on_after(min(hold, 1.0) if hold else math.inf):
                        await changed.wait()
                    continue
                (_, message_id), sender = found.stored.key, found.stored.sender_id
                message = await driver.contents.delivered(found.stored)
            except UnreadableError as error:
                driver.counts["unreadable"] += 1
                driver.tell(ContentUnreadable(message_id, sender, str(error)))
                continue
            if message is not None:
                message = replace(message, missing=found.missing, late=found.late)
                return replace(message, cursor=str(cursor)), cursor

    def _say_dropped(self, cursor: Cursor, gone: Key | None) -> None:
        """Tell once if messages left the log, up to `gone`, that a reader hadn't had."""
        begin = (self._driver.participant.log.since + 1, "")
        if gone is not None and gone > max(cursor.place or begin, begin, self._told):
            self._told = gone
            self._driver.counts["unread-dropped"] += 1
            self._driver.tell(UnreadDropped(gone[0]))


def _place(item: LogItem | ChannelMessage | None) -> Key | None:
    return None if item is None or item.clock is None else (item.clock, item.id)


def _refuse_content_ids(pubsub: Pubsub) -> None:
    """Pubsub drops for minutes what has the id of something it has seen."""
    first, second = (
        rpc_pb2.Message(data=b"sds", topicIDs=["sds"], from_id=b"sds", seqno=bytes([n]) * 8)
        for n in (1, 2)
    )
    if pubsub.get_message_id(first) == pubsub.get_message_id(second):
        raise ValueError(
            "this pubsub's msg_id_constructor gives two messages with equal content one id: "
            "resends and repairs would be dropped as duplicates; use get_peer_and_seqno_msg_id"
        )
