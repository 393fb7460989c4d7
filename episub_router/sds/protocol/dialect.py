"""What a participant adds to its messages, and reads from those of others, for other software."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import Effect
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.outgoing import Outgoing


class Dialect:
    """Adds nothing: heads say all. `episub_router.sds.interop` has another one."""

    def name(self, sender: SenderId, channel_id: str, lamport: int, content: bytes) -> MessageId:
        """The id that a message of ours carries; empty where it is the hash of its bytes."""
        return ""

    def fill(self, message: Message, log: Log) -> Message:
        """A message of ours with what others need besides."""
        return message

    def received(self, message_id: MessageId) -> None:
        """A message came, and may wait for others."""

    def delivered(self, message_id: MessageId) -> None:
        """A message is in the log."""

    def restore(self, logged: Iterable[MessageId]) -> None:
        """What was logged before a restart, oldest first."""

    def review(self, message: Message, outgoing: Outgoing, now: Time) -> list[Effect]:
        """What a message of another says about ours besides its history."""
        return []
