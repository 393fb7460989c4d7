"""A high-availability cache: every message of every channel of some topics (S15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.sds.interop import Interop
from episub_router.sds.net.access import access_of, channel_of
from episub_router.sds.net.driver import ChannelDriver, Entered, unwrapped_nursery, wall
from episub_router.sds.net.exchange import Authorizer
from episub_router.sds.net.intake import Intake, Rejected
from episub_router.sds.net.topic import SharedTopic, join
from episub_router.sds.protocol.message import Kind, Way
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.shares import Shares
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.wire.codec import Codec

_MAX_CHANNELS = 1000


class StoreNode(Entered):
    """Takes part in every channel that it hears of, says nothing, keeps and serves everything.

    What it misses it asks others for, like any participant. The store's `retention` says what
    is kept on disk; `params.log_limit` only bounds each channel's index in memory. At most
    `max_channels` channels are kept, of which messages of one sender open a quarter; messages of
    further ones are counted in `stats`.

        async with StoreNode(host, pubsub, SqliteStore("node.db", Retention()), topics=["room"]):
            await trio.sleep_forever()
    """

    def __init__(
        self,
        host: IHost,
        pubsub: Pubsub,
        store: SqliteStore,
        *,
        topics: Sequence[str],
        params: SdsParams | None = None,
        interop: Interop | None = None,
        authorize: Authorizer | None = None,
        max_channels: int = _MAX_CHANNELS,
    ) -> None:
        if pubsub.host is not host:
            raise ValueError("the pubsub runs on another host")
        if store.retention is None:
            raise ValueError("a store node needs a store with retention, to keep full history")
        self._pubsub = pubsub
        self._store = store
        self._topics = tuple(topics)
        self._params = params or SdsParams()
        self._interop = interop
        self._authorize = authorize
        self._max_channels = max_channels
        self._drivers: dict[tuple[str, str], ChannelDriver] = {}
        self._opened: Shares[tuple[str, str], str] = Shares(max_channels)
        """Whose messages have opened the channels."""
        self.counts: Counter[str] = Counter()

    @property
    def stats(self) -> Counter[str]:
        """What was dropped, rejected and published so far over all channels, by reason."""
        return sum((e.counts for e in self._drivers.values()), self.counts.copy())

    @property
    def channels(self) -> dict[tuple[str, str], int]:
        """Messages in the index by (topic, channel)."""
        return {
            name: len(driver.participant.log)
            for name, driver in self._drivers.items()
            if driver.running
        }

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        listeners: list[tuple[SharedTopic, _Listener]] = []
        async with unwrapped_nursery() as self._nursery:
            try:
                for name in self._topics:
                    listener = _Listener(self, name)
                    listeners.append((await join(self._pubsub, name, listener), listener))
                for key in self._store.channels():
                    oldest, _ = self._store.page(key, None, None, 1, 1)
                    for topic in self._topics:
                        channel_id = channel_of(key, topic)
                        known = (topic, channel_id) in self._drivers  # a message was faster
                        if oldest and channel_id is not None and not known:
                            self._opened.add((topic, channel_id), oldest[0].sender_id)
                            await self._open(topic, channel_id).start(self._nursery)
                self._nursery.start_soon(access_of(self._store).purge_regularly, self.counts)
                yield
            finally:
                self._nursery.cancel_scope.cancel()
                for driver in self._drivers.values():
                    await driver.stop()
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 2.0):
                    for joined, listener in listeners:
                        await joined.leave(listener)

    def receive(self, topic: str, channel_id: str, message: rpc_pb2.Message) -> None:
        """A message of a channel that isn't open yet, or just being opened."""
        driver = self._drivers.get((topic, channel_id))
        if driver is None:
            sender = self._opener(topic, message)
            if sender is None:
                self.counts["opens-no-channel"] += 1
                return
            full = len(self._drivers) >= self._max_channels
            if full or self._opened.refuses(sender):
                self.counts["channels-full"] += 1
                return
            self._opened.add((topic, channel_id), sender)
            driver = self._open(topic, channel_id)
            self._nursery.start_soon(driver.start, self._nursery)
        driver.take(message, channel_id)

    def _opener(self, topic: str, message: rpc_pb2.Message) -> str | None:
        """Whose message it is, if it is one that a channel keeps."""
        params = self._params
        codec = self._interop.codec(params, wall) if self._interop else Codec(params)
        intake = Intake(topic, codec, bind_sender=self._pubsub.strict_signing)
        received = intake.broadcast(message)
        if isinstance(received, Rejected) or received.way is Way.UNPROVEN:
            return None
        return received.message.sender_id if received.message.kind is Kind.CONTENT else None

    def _open(self, topic: str, channel_id: str) -> ChannelDriver:
        driver = self._drivers[topic, channel_id] = ChannelDriver(
            pubsub=self._pubsub,
            topic_name=topic,
            channel_id=channel_id,
            sender_id=self._pubsub.my_id.to_base58(),
            store=self._store,
            params=self._params,
            interop=self._interop,
            authorize=self._authorize,
            bind_sender=self._pubsub.strict_signing,
        )
        return driver


class _Listener:
    """Gets the messages of all channels that nobody has opened."""

    listens_to = None

    def __init__(self, node: StoreNode, topic: str) -> None:
        self._node = node
        self._topic = topic

    def take(self, message: rpc_pb2.Message, channel_id: str | None) -> None:
        if channel_id is None:
            self._node.counts["malformed"] += 1
        else:
            self._node.receive(self._topic, channel_id, message)

    def peers_changed(self, present: Collection[ID]) -> None:
        """It asks nobody."""
