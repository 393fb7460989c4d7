"""One subscription per topic, shared by its channels; one look at the peers of all topics (S16)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, cast

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.subscription import TrioSubscriptionAPI

from episub_router.pubsub import Subscription
from episub_router.sds.wire.codec import peek_channel
from episub_router.util.kept import one_for_each

_WATCH_INTERVAL = 1.0
_BUFFER = 1024
"""Messages of a topic that may come before they are read: one of each of a thousand channels, which
may all come in one turn of the event loop (chosen, and the default of `PubsubParams`)."""


class TopicUser(Protocol):
    """A channel, or the listener to all channels that have no other (None)."""

    @property
    def listens_to(self) -> str | None: ...

    def take(self, message: rpc_pb2.Message, channel_id: str | None) -> None:
        """`channel_id` None: the bytes are no message, and somebody has to count them."""

    def peers_changed(self, present: Collection[ID]) -> None:
        """These are the peers that are in the topic now."""


class SharedTopic:
    """Drains the subscription, because pubsub drops what it can't queue, until the last user leaves
    and it ends. No user's task does, as any may leave first."""

    def __init__(
        self, pubsub: Pubsub, name: str, topics: OpenTopics, subscription: ISubscriptionAPI
    ) -> None:
        self.pubsub = pubsub
        self.name = name
        self._topics = topics
        self._subscription = subscription
        self._users: dict[str | None, TopicUser] = {}
        self._present: dict[ID, None] = {}
        trio.lowlevel.spawn_system_task(self._read)

    def look(self) -> None:
        """See which peers are in the topic now."""
        listed = self.pubsub.peer_topics.get(self.name, ())
        present = {p: None for p in listed if p in self.pubsub.peers}
        if present.keys() != self._present.keys():
            self._present = present
            for user in list(self._users.values()):
                user.peers_changed(present)

    def enter(self, user: TopicUser) -> None:
        """A user more. Raises ValueError where there is one of the same channel."""
        if user.listens_to in self._users:
            raise ValueError(f"channel {user.listens_to!r} of topic {self.name!r} is open already")
        self.look()
        self._users[user.listens_to] = user
        user.peers_changed(self._present)

    async def leave(self, user: TopicUser) -> None:
        del self._users[user.listens_to]
        async with self._topics.joining:
            if not self._users and self._topics.open.get(self.name) is self:
                del self._topics.open[self.name]
                await self._subscription.unsubscribe()

    async def _read(self) -> None:
        async for message in self._subscription:
            channel_id = peek_channel(message.data)
            user = self._users.get(channel_id) or self._users.get(None)
            if user is None and channel_id is None:
                user = next(iter(self._users.values()), None)
            if user is not None:
                user.take(message, channel_id)


class OpenTopics:
    """Those of one pubsub that have users."""

    def __init__(self) -> None:
        self.open: dict[str, SharedTopic] = {}
        self.joining = trio.Lock()
        self._watching = False

    def watch(self) -> None:
        """Look at the peers of all topics; py-libp2p has no event for them."""
        if not self._watching:
            self._watching = True
            trio.lowlevel.spawn_system_task(self._watch)

    async def _watch(self) -> None:
        while self.open:
            await trio.sleep(_WATCH_INTERVAL)
            for topic in list(self.open.values()):
                topic.look()
        self._watching = False


topics_of: Callable[[Pubsub], OpenTopics] = one_for_each(lambda pubsub: OpenTopics())


async def join(pubsub: Pubsub, name: str, user: TopicUser) -> SharedTopic:
    """Subscribe, or share the subscription of another channel of this topic.

    Raises ValueError where the channel is open already, or someone else reads the topic:
    py-libp2p gives every subscriber of one topic the same queue, so each would get a part.
    """
    topics = topics_of(pubsub)
    async with topics.joining:
        topic = topics.open.get(name)
        if topic is None:
            if name in pubsub.topic_ids:
                raise ValueError(
                    f"topic {name!r} is subscribed already: its messages would be divided between "
                    f"two readers; unsubscribe first"
                )
            subscription = _with_room(pubsub, name, await pubsub.subscribe(name))
            topic = topics.open[name] = SharedTopic(pubsub, name, topics, subscription)
    topic.enter(user)
    topics.watch()
    return topic


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
