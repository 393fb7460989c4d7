"""Contents on their way: sealed and cut when sent, put together and opened when read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from episub_router.sds.content.messages import ChannelMessage
from episub_router.sds.protocol.entry import StoredMessage
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.store import StoredDelivery
from episub_router.sds.wire import Codec

_SEAL = 4096
"""Bytes by which a cipher may lengthen the largest content."""


class ContentCipher(Protocol):
    """Encrypts the contents of one channel; what carries them (ids, senders, clocks) stays open.

    `context` is authenticated with the content and not part of the result: the topic, the channel
    and the sender, so that a content can't be passed off as another one's.
    """

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        """The content as others may see it."""

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """The content. Raises whatever it likes where `data` isn't one: it counts as unreadable."""


class UnreadableError(Exception):
    """A content can't be read; the message says why."""


class Contents:
    """Of one channel of one topic. `stored` finds messages of the log by id."""

    def __init__(
        self,
        codec: Codec,
        params: SdsParams,
        *,
        topic: str,
        channel_id: str,
        cipher: ContentCipher | None,
        stored: Callable[[Sequence[MessageId]], Awaitable[list[StoredMessage]]],
    ) -> None:
        self._codec = codec
        self._params = params
        self._place = (topic, channel_id)
        self._cipher = cipher
        self._stored = stored

    def sealed(self, content: bytes, sender: SenderId) -> bytes:
        """As it is sent. Raises ValueError where it's empty or too large."""
        if not content:
            raise ValueError("a message needs content; an empty one would be a sync message")
        if len(content) > self._params.max_content:
            raise ValueError(
                f"the content has {len(content)} bytes, at most {self._params.max_content} are sent"
            )
        if self._cipher is None:
            return content
        return self._cipher.encrypt(content, context_of(*self._place, sender))

    def pieces(self, content: bytes, sender: SenderId) -> list[bytes]:
        """As it is sent, in pieces where it's larger than one message may be."""
        # An eighth is for history and filter: 2,048 heads take 74 kB.
        sealed, size = self.sealed(content, sender), self._params.max_message * 7 // 8
        return [sealed[i : i + size] for i in range(0, len(sealed), size)]

    async def delivered(self, message: Message, delivery: StoredDelivery) -> ChannelMessage:
        """A delivery for the application. Raises UnreadableError."""
        content = await self._content(message, delivery.sender_id)
        return ChannelMessage(
            message.message_id,
            delivery.sender_id,
            content,
            message.lamport,
            delivery.position,
            delivery.missing,
        )

    async def shown(self, rows: Sequence[StoredMessage]) -> list[ChannelMessage]:
        """Messages of the log, without pieces of others."""
        result = []
        messages = [self._codec.decode(row.raw, row.key[0]) for row in rows]
        pieces = {m.message_id: m for m in messages if m.part}
        for row, message in zip(rows, messages, strict=True):
            if message.part or message.snapshot:
                continue
            shown = ChannelMessage(message.message_id, row.sender_id, b"", row.key[0])
            try:
                content = await self._content(message, row.sender_id, pieces)
                result.append(replace(shown, content=content))
            except UnreadableError:
                result.append(replace(shown, readable=False))
        return result

    def ephemeral(self, message: Message) -> ChannelMessage:
        """An ephemeral message for the application. Raises UnreadableError."""
        content = self.opened(message.content or b"", message.sender_id)
        return ChannelMessage(message.message_id, message.sender_id, content, None)

    async def _content(
        self, message: Message, sender: SenderId, at_hand: Mapping[MessageId, Message] | None = None
    ) -> bytes:
        """The content that a message completes. Raises UnreadableError where a piece is missing, or
        is none of the same sender."""
        if not message.parts:
            return self.opened(message.content or b"", sender)
        found = {i: at_hand[i] for i in message.parts if i in at_hand} if at_hand else {}
        if len(found) < len(message.parts):
            rows = await self._stored(message.parts)
            found |= {row.key[1]: self._codec.decode(row.raw) for row in rows}
        missing = [i for i in message.parts if i not in found]
        if missing:
            raise UnreadableError(f"{len(missing)} of {len(message.parts) + 1} pieces are missing")
        pieces = [found[i] for i in message.parts]
        if not all(p.part and p.sender_id in ("", sender) for p in pieces):
            raise UnreadableError("it names messages as its pieces that are none")
        whole = b"".join(p.content or b"" for p in [*pieces, message])
        if len(whole) > self._params.max_content + _SEAL:
            raise UnreadableError(
                f"{len(whole)} bytes, at most {self._params.max_content} are taken"
            )
        return self.opened(whole, sender)

    def opened(self, data: bytes, sender: SenderId) -> bytes:
        """What was sealed. Raises UnreadableError."""
        if self._cipher is None:
            return data
        try:
            return self._cipher.decrypt(data, context_of(*self._place, sender))
        except Exception as error:  # whatever the application's library raises
            raise UnreadableError(f"{type(error).__name__}: {error}") from error


def context_of(topic: str, channel_id: str, sender_id: str) -> bytes:
    """Topic, channel and sender, each with its length (4 bytes, big-endian) in front."""
    parts = (topic.encode(), channel_id.encode(), sender_id.encode())
    return b"".join(len(p).to_bytes(4, "big") + p for p in parts)
