"""Contents on their way: sealed and cut when sent, put together and opened when read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from episub_router.sds.content.cipher import ContentCipher, context_of
from episub_router.sds.content.messages import ChannelMessage
from episub_router.sds.content.pieces import UnreadableError, cut, joined
from episub_router.sds.net.access import StoreAccess
from episub_router.sds.protocol.effects import Effect
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import Participant
from episub_router.sds.store import StoredDelivery, StoredMessage
from episub_router.sds.wire import Codec


class Contents:
    """Of one channel of one topic."""

    def __init__(
        self,
        access: StoreAccess,
        key: str,
        codec: Codec,
        params: SdsParams,
        *,
        topic: str,
        channel_id: str,
        cipher: ContentCipher | None,
    ) -> None:
        self._access = access
        self._key = key
        self._codec = codec
        self._params = params
        self._topic = topic
        self._channel_id = channel_id
        self._cipher = cipher

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
        return self._cipher.encrypt(content, self._context(sender))

    def pieces(self, content: bytes, sender: SenderId) -> list[bytes]:
        """As it is sent, in pieces where it's larger than one message may be."""
        # An eighth is for history and filter: 2,048 heads take 74 kB.
        return cut(self.sealed(content, sender), self._params.max_message * 7 // 8)

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

    async def stored(self, rows: Sequence[StoredMessage]) -> list[ChannelMessage]:
        """Messages of the log, without pieces of others."""
        result = []
        messages = [self._codec.decode(row.raw, row.key[0]) for row in rows]
        pieces = {m.message_id: m for m in messages if m.part}
        for row, message in zip(rows, messages, strict=True):
            if message.part:
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
        content = self._opened(message.content or b"", message.sender_id)
        return ChannelMessage(message.message_id, message.sender_id, content, None)

    async def _content(
        self, message: Message, sender: SenderId, at_hand: Mapping[MessageId, Message] | None = None
    ) -> bytes:
        pieces = [at_hand[i] for i in message.parts if i in at_hand] if at_hand else []
        if len(pieces) < len(message.parts):
            store, key = self._access.store, self._key
            rows = await self._access.run(lambda: store.get(key, message.parts))
            pieces += [self._codec.decode(row.raw) for row in rows]
        most = self._params.max_content + _SEAL
        return self._opened(joined(message, sender, pieces, most), sender)

    def _opened(self, data: bytes, sender: SenderId) -> bytes:
        if self._cipher is None:
            return data
        try:
            return self._cipher.decrypt(data, self._context(sender))
        except Exception as error:  # whatever the application's library raises
            raise UnreadableError(f"{type(error).__name__}: {error}") from error

    def _context(self, sender: SenderId) -> bytes:
        return context_of(self._topic, self._channel_id, sender)


def send_pieces(
    participant: Participant, pieces: Sequence[bytes], now: float
) -> tuple[MessageId, list[Effect]]:
    """A content, of which the last piece gives the id. Raises what `Participant.send` raises; then
    the participant is ahead of its store where there are several."""
    effects: list[Effect] = []
    ids: list[MessageId] = []
    for piece in pieces[:-1]:
        piece_id, more = participant.send(piece, now, part=True)
        ids.append(piece_id)
        effects += more
    message_id, more = participant.send(pieces[-1], now, parts=tuple(ids))
    return message_id, effects + more


_SEAL = 4096
"""Bytes by which a cipher may lengthen the largest content."""
