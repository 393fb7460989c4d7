"""What publishing asks of the router first: room, a running service, and a message that fits.

A message is refused before it is delivered here, so an error means that nobody has it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, cast, runtime_checkable

import trio
from libp2p.abc import IHost, IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service.exceptions import LifecycleError

from episub_router.hooked_pubsub import HookedPubsub
from episub_router.util.checks import check_seconds
from episub_router.util.message_size import message_size
from episub_router.util.own_readers import OwnReaders
from episub_router.util.trio_only import check_not_asyncio

_FRAME_ROOM = 64
"""Bytes that a frame adds to a message and its topic: field tags, lengths, sequence id, hops."""

_LEAST_WAIT = 0.001
"""Seconds that a router is waited for once the readers here have taken the whole time-out."""


class PublishError(Exception):
    """The message was not published; nobody has it."""


class MessageTooLarge(PublishError, ValueError):
    """The message doesn't fit an RPC, nor pieces if it goes in those.

    `size` is what it takes with its signature, `limit` what may be taken, both in bytes.
    """

    def __init__(
        self, size: int, limit: int, what: str = "an RPC", option: str = "max_inbound_rpc_size"
    ) -> None:
        super().__init__(
            f"the message takes {size:,} bytes with its signature, and at most {limit:,} fit "
            f"{what}; send less at a time, or raise {option} at every node"
        )
        self.size = size
        self.limit = limit


class PublishTimeout(PublishError, TimeoutError):
    """There was no room for the message in time: a neighbour takes less than is published."""


class BacklogFull(PublishError):
    """There is no room for the message now: a neighbour takes less than is published."""


class RouterNotRunning(PublishError, RuntimeError):
    """The router's service isn't running, so nothing would leave this node."""

    def __init__(self) -> None:
        super().__init__(
            "the router's service isn't running: publish inside of "
            "`async with background_trio_service(router)`"
        )


@runtime_checkable
class PublishGate(Protocol):
    """A router that says when there is room for another message of this node's own."""

    def room_to_publish(
        self, topics: Sequence[str], size: int, timeout: float | None
    ) -> AbstractAsyncContextManager[None]:
        """Wait for room for `size` bytes in `topics`, and keep it until the context ends.

        `timeout` is in seconds, None for the router's default, and 0 not to wait at all. Raises
        PublishTimeout, BacklogFull if `timeout` is 0, RouterNotRunning, and ValueError for a
        topic that no frame can carry.
        """


def largest_message(topics: Sequence[str], rpc_size: int) -> int:
    """Bytes that a message with `topics` may take, its signature included, in an RPC of
    `rpc_size`."""
    return rpc_size - _FRAME_ROOM - max((len(topic.encode()) for topic in topics), default=0)


def check_message_size(message: Message, rpc_size: int) -> None:
    """Raises MessageTooLarge for a message that an RPC of `rpc_size` bytes can't carry."""
    size, limit = message_size(message), largest_message(message.topicIDs, rpc_size)
    if size > limit:
        raise MessageTooLarge(size, limit)


def check_one_pubsub(host: IHost, protocols: Iterable[TProtocol]) -> None:
    """Raises RuntimeError if another Pubsub that hasn't stopped serves `protocols` at `host`."""
    check_not_asyncio()
    for protocol in protocols:
        other = getattr(host.get_mux().handlers.get(protocol), "__self__", None)
        if not isinstance(other, Pubsub):
            continue
        with suppress(LifecycleError):
            if other.get_manager().is_finished:
                continue
        raise RuntimeError(
            f"the host has a Pubsub already, which serves {protocol}: a host can have one, and "
            "that one any number of topics"
        )


class BackpressurePubsub(HookedPubsub):
    """py-libp2p's `Pubsub` with a `publish` that waits for room, if the router has a say in it,
    and refuses what doesn't fit an RPC."""

    def __init__(self, host: IHost, router: IPubsubRouter, **options: Any) -> None:
        check_one_pubsub(host, router.get_protocols())
        super().__init__(host, router, **options)
        self._own_readers = OwnReaders(cast(Any, self.subscribed_topics_send))

    async def publish(
        self,
        topic_id: str | list[str],
        data: bytes,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> None:
        """As in `Pubsub`, but wait until the router has room, and while readers of this node's own
        subscriptions to the topics are behind and go on reading.

        `timeout` is in seconds; by default the router's, `RouterParams.publish_timeout`. Raises
        MessageTooLarge, PublishTimeout, RouterNotRunning, TypeError and ValueError, all of them
        before the message is delivered anywhere.
        """
        check_not_asyncio()
        topics = [topic_id] if isinstance(topic_id, str) else list(topic_id)
        _check_types(topics, data)
        if timeout is not None:
            check_seconds("timeout", timeout)
        async with self._room(topics, len(data), timeout):
            await self.send_message(topics, bytes(data))

    async def send_message(self, topics: list[str], data: bytes) -> None:
        """Make the message and send it."""
        await super().publish(topics, data)

    async def publish_nowait(self, topic_id: str | list[str], data: bytes) -> None:
        """As `publish`, but raise BacklogFull instead of waiting for room.

        It still waits for asynchronous validators of the topic.
        """
        await self.publish(topic_id, data, timeout=0)

    async def push_msg(self, msg_forwarder: ID, msg: Message) -> None:
        """As in `Pubsub`; raises MessageTooLarge for a message of this node that doesn't fit."""
        if msg_forwarder == self.my_id:
            check = getattr(self.router, "check_message_size", None)
            if check is None:
                check_message_size(msg, self.max_inbound_rpc_size)
            else:
                check(msg)
        await super().push_msg(msg_forwarder, msg)

    async def open_peer_stream(self, peer_id: ID) -> None:
        await super().open_peer_stream(peer_id)
        queue = self.peer_queues.get(peer_id)
        if queue is not None:
            # Made with py-libp2p's default; one that takes large messages sends them, too.
            queue.max_message_size = self.max_inbound_rpc_size

    @asynccontextmanager
    async def _room(
        self,
        topics: Sequence[str],
        size: int,
        timeout: float | None,  # noqa: ASYNC109
    ) -> AsyncIterator[None]:
        router: Any = self.router
        if timeout != 0:
            deadline = math.inf if timeout is None else trio.current_time() + timeout
            with trio.move_on_at(deadline):
                await self._own_readers.wait(topics)
            if timeout is not None:
                # What is left of it; 0 would raise another error.
                timeout = max(deadline - trio.current_time(), _LEAST_WAIT)
        if isinstance(router, PublishGate):
            async with router.room_to_publish(topics, size, timeout):
                yield
        else:
            yield


def _check_types(topics: Sequence[str], data: bytes) -> None:
    for topic in topics:
        if not isinstance(topic, str):
            raise TypeError(f"a topic must be a str, not {type(topic).__name__}: {topic!r}")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be bytes, not {type(data).__name__}")
