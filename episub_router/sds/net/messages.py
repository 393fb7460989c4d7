"""What an application gets to see."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.store import StoredDelivery, StoredMessage


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """A message of the channel.

    `clock` is None for an ephemeral message. `position` counts deliveries here from 1; it is 0
    for a message of the log that was not delivered, such as our own. `missing` are ids of
    dependencies that were given up as lost before this message was delivered.
    """

    id: MessageId
    sender: SenderId
    content: bytes
    clock: int | None
    position: int = 0
    missing: tuple[MessageId, ...] = ()

    @property
    def ephemeral(self) -> bool:
        return self.clock is None


@dataclass(frozen=True, slots=True)
class LogItem:
    """A place in the channel's total order. `clock` in milliseconds of Unix time."""

    id: MessageId
    sender: SenderId
    clock: int


def from_delivery(message: Message, delivery: StoredDelivery) -> ChannelMessage:
    return ChannelMessage(
        message.message_id,
        delivery.sender_id,
        message.content or b"",
        message.lamport,
        delivery.position,
        delivery.missing,
    )


def from_stored(message: Message, stored: StoredMessage) -> ChannelMessage:
    return ChannelMessage(
        message.message_id, stored.sender_id, message.content or b"", stored.key[0]
    )


def from_ephemeral(message: Message) -> ChannelMessage:
    return ChannelMessage(message.message_id, message.sender_id, message.content or b"", None)
