"""What publishing asks of the router first: room, a running service, and a message that fits.

A message is refused before it is delivered here, so an error means that nobody has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol, runtime_checkable

from libp2p.abc import IHost
from libp2p.custom_types import TProtocol
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service.exceptions import LifecycleError

from episub_router.util.message_size import message_size
from episub_router.util.trio_only import check_not_asyncio

_FRAME_ROOM = 64
"""Bytes that a frame adds to a message and its topic: field tags, lengths, sequence id, hops."""


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
