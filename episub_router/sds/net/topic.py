"""One subscription per topic, shared by its channels; one look at the peers of all topics (S16)."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.subscription import TrioSubscriptionAPI

from episub_router.pubsub import Subscription
from episub_router.sds.wire import peek_channel

_OPEN: WeakKeyDictionary[Pubsub, dict[str, SharedTopic]] = WeakKeyDictionary()
_JOINING: WeakKeyDictionary[Pubsub, trio.Lock] = WeakKeyDictionary()
_WATCHES: WeakKeyDictionary[Pubsub, PeerWatch] = WeakKeyDictionary()
_WATCH_INTERVAL = 1.0
_BUFFER = 1024
"""Messages of a topic that may come before they are read: one of each of a thousand channels, which
may all come in one turn of the event loop (chosen, and the default of `PubsubParams`)."""


class TopicUser(Protocol):
    """A channel, or the listener to all channels that have no other (None)."""

    @property
    def listens_to(self) -> str | None: ...

    @property
    def nursery(self) -> trio.Nursery: ...

    def take(self, message: rpc_pb2.Message, channel_id: str | None) -> None:
        """`channel_id` None: the bytes are no message, and somebody has to count them."""

    def peers_changed(self, present: Collection[ID]) -> None:
        """These are the peers that are in the topic now."""


class PeerWatch:
    """Looks at the peers of all topics of one pubsub; py-libp2p has no event for them.

    Like a topic's reader, its task lives in the nursery of one user.
    """

    def __init__(self, pubsub: Pubsub) -> None:
        self._pubsub = pubsub
        self._keeper: TopicUser | None = None
        self._scope = trio.CancelScope()

    def keep(self, user: TopicUser) -> None:
        """`user`'s nursery is one that the task may live in."""
        if self._keeper is None:
            self._keeper = user
            self._scope = trio.CancelScope()
            user.nursery.start_soon(self._run)

    def leave(self, user: TopicUser) -> None:
        if self._keeper is user:
            self._scope.cancel()
            self._keeper = None
            for topic in _OPEN.get(self._pubsub, {}).values():
                for other in topic.users:
                    self.keep(other)
                    return
            del _WATCHES[self._pubsub]

    async def _run(self) -> None:
        with self._scope:
            while True:
                await trio.sleep(_WATCH_INTERVAL)
                for topic in list(_OPEN.get(self._pubsub, {}).values()):
                    topic.look()


class SharedTopic:
    """Drains the subscription, because pubsub drops what it can't queue.

    The reading task lives in the nursery of one user; when that one leaves, it moves on.
    """

    def __init__(self, pubsub: Pubsub, name: str, subscription: ISubscriptionAPI) -> None:
        self.pubsub = pubsub
        self.name = name
        self._subscription = subscription
        self._users: dict[str | None, TopicUser] = {}
        self._reader: TopicUser | None = None
        self._scope = trio.CancelScope()
        self._present: dict[ID, None] = {}

    @property
    def users(self) -> list[TopicUser]:
        return list(self._users.values())

    def look(self) -> None:
        """See which peers are in the topic now."""
        listed = self.pubsub.peer_topics.get(self.name, ())
        present = {p: None for p in listed if p in self.pubsub.peers}
        if present.keys() != self._present.keys():
            self._present = present
            for user in self.users:
                user.peers_changed(present)

    def enter(self, user: TopicUser) -> None:
        """A user more. Raises ValueError where there is one of the same channel."""
        if user.listens_to in self._users:
            raise ValueError(f"channel {user.listens_to!r} of topic {self.name!r} is open already")
        self.look()
        self._users[user.listens_to] = user
        user.peers_changed(self._present)
        if self._reader is None:
            self._let_read(user)

    @property
    def channels(self) -> list[str]:
        return [c for c in self._users if c is not None]

    async def _read(self) -> None:
        with self._scope:
            async for message in self._subscription:
                self._dispatch(message)

    def _dispatch(self, message: rpc_pb2.Message) -> None:
        channel_id = peek_channel(message.data)
        user = self._users.get(channel_id) or self._users.get(None)
        if user is None and channel_id is None:
            user = next(iter(self._users.values()), None)
        if user is not None:
            user.take(message, channel_id)

    def _let_read(self, user: TopicUser) -> None:
        self._scope = trio.CancelScope()
        self._reader = user
        user.nursery.start_soon(self._read)

    async def leave(self, user: TopicUser) -> None:
        del self._users[user.listens_to]
        if self._reader is user:
            self._scope.cancel()
            self._reader = None
            for other in self._users.values():
                self._let_read(other)
                break
        if not self._users:
            _OPEN.get(self.pubsub, {}).pop(self.name, None)
        _WATCHES[self.pubsub].leave(user)
        if not self._users:
            await self._subscription.unsubscribe()


async def join(pubsub: Pubsub, name: str, user: TopicUser) -> SharedTopic:
    """Subscribe, or share the subscription of another channel of this topic.

    Raises ValueError where the channel is open already, or someone else reads the topic:
    py-libp2p gives every subscriber of one topic the same queue, so each would get a part.
    """
    topics = _OPEN.setdefault(pubsub, {})
    async with _JOINING.setdefault(pubsub, trio.Lock()):
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = await _open(pubsub, name)
    topic.enter(user)
    _WATCHES.setdefault(pubsub, PeerWatch(pubsub)).keep(user)
    return topic


async def _open(pubsub: Pubsub, name: str) -> SharedTopic:
    if name in pubsub.topic_ids:
        raise ValueError(
            f"topic {name!r} is subscribed already: its messages would be divided between two "
            f"readers; unsubscribe first"
        )
    return SharedTopic(pubsub, name, _with_room(pubsub, name, await pubsub.subscribe(name)))


def _with_room(pubsub: Pubsub, name: str, subscription: ISubscriptionAPI) -> ISubscriptionAPI:
    """py-libp2p's own subscription with the room of `Subscription`."""
    if type(subscription) is TrioSubscriptionAPI:
        roomy = Subscription(_BUFFER, partial(pubsub.unsubscribe, name))
        with suppress(trio.WouldBlock):
            while True:
                roomy.send_channel.send_nowait(subscription.receive_channel.receive_nowait())
        pubsub.subscribed_topics_send[name] = cast(Any, roomy.send_channel)
        subscription.receive_channel = roomy.receive_channel
    return subscription
