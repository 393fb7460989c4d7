"""Contents on their way: sealed and cut when sent, put together and opened when read."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import trio
from Crypto.Hash import keccak

from episub_router.sds.content.messages import ChannelMessage
from episub_router.sds.protocol.entry import Key, StoredMessage
from episub_router.sds.protocol.message import Message, Segment, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.store.values import SegmentPlace
from episub_router.sds.wire.codec import MAX_SEGMENTS, Codec

_SEAL = 4096
"""Bytes by which a cipher may lengthen the largest content."""
_HEADER = 64
"""Bytes of a segment besides its payload."""
_AT_ONCE = 2**20
"""Bytes that are hashed on the event loop (chosen)."""


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


@dataclass(eq=False)
class Contents:
    """Of the topic and channel of a `place`. `of_store` calls methods of its store.

    What is larger than a message goes in segments (LIP-243), of which the one that came last stands
    for the whole. They are sent one after another, so that clocks and indexes grow together: a
    content that is said again begins where an index doesn't.
    """

    codec: Codec
    params: SdsParams
    place: tuple[str, str]
    cipher: ContentCipher | None
    of_store: Callable[..., Awaitable[list[Any]]]

    def sealed(self, content: bytes, sender: SenderId) -> bytes:
        """As it is sent. Raises ValueError where it's empty or too large."""
        if not content:
            raise ValueError("a message needs content; an empty one would be a sync message")
        if len(content) > self.params.max_content:
            raise ValueError(
                f"the content has {len(content)} bytes, at most {self.params.max_content} are sent"
            )
        if self.cipher is None:
            return content
        return self.cipher.encrypt(content, context_of(*self.place, sender))

    async def cut(
        self, content: bytes, sender: SenderId, *, whole: bool = False
    ) -> list[tuple[bytes, Segment | None]]:
        """As it is sent, in segments where it's larger than one message may be, unless `whole`."""
        sealed = self.sealed(content, sender)
        # An eighth is for heads.
        size = (self.params.max_message - self.codec.filter_size) * 7 // 8 - _HEADER
        size = len(sealed) if whole else size
        if len(sealed) <= size and not self.codec.segments:
            return [(sealed, None)]
        parts = [sealed[i : i + size] for i in range(0, len(sealed), size)]
        if len(parts) > MAX_SEGMENTS:
            raise ValueError(f"{len(parts)} segments of {size} bytes, at most {MAX_SEGMENTS}")
        digest, count, length = await _digest(sealed), len(parts), len(sealed)
        return [(part, Segment(digest, i, count, length)) for i, part in enumerate(parts)]

    async def delivered(self, stored: StoredMessage) -> ChannelMessage | None:
        """A message of the log for the application; None for one that it doesn't get, such as a
        segment that completes nothing. Raises UnreadableError."""
        message = self.codec.decode(stored.raw, stored.key[0])
        content = await self._content(message, stored, {})
        if content is None:
            return None
        return ChannelMessage(stored.key[1], stored.sender_id, content, stored.key[0])

    async def shown(self, rows: Sequence[StoredMessage]) -> list[ChannelMessage]:
        """Messages of the log, or of a peer's, without segments that complete nothing."""
        result = []
        messages = [self.codec.decode(row.raw, row.key[0]) for row in rows]
        sets = defaultdict[Any, list[tuple[Key, Message]]](list)
        for row, message in sorted(zip(rows, messages, strict=True), key=lambda pair: pair[0].key):
            sets[row.sender_id, message.segment and message.segment.of].append((row.key, message))
        for row, message in zip(rows, messages, strict=True):
            shown = ChannelMessage(row.key[1], row.sender_id, b"", row.key[0])
            count = message.segment.count if message.segment else 0
            among = sets[row.sender_id, message.segment and message.segment.of]
            at = bisect_left(among, (row.key,))
            beside = dict(among[max(0, at - count) : at + count])
            try:
                content = await self._content(message, row, beside)
                if content is not None:
                    result.append(replace(shown, content=content))
            except UnreadableError:
                result.append(replace(shown, readable=False))
        return result

    def part(self, row: StoredMessage) -> int:
        """How many segments of its content come before this message."""
        segment = self.codec.decode(row.raw, row.key[0]).segment
        return segment.index if segment else 0

    def ephemeral(self, message: Message) -> ChannelMessage:
        """An ephemeral message for the application. Raises UnreadableError."""
        if message.segment is not None and message.segment.count != 1:
            raise UnreadableError("an ephemeral message is a part of a content, or no segment")
        content = self.opened(message.content or b"", message.sender_id)
        return ChannelMessage(message.message_id, message.sender_id, content, None)

    async def _content(
        self, message: Message, stored: StoredMessage, beside: Mapping[Key, Message]
    ) -> bytes | None:
        """The content of a message, or the one that it completes; None where there is neither.
        `beside` are segments of that one which may not be in the store: those that aren't come
        after all that are.

        Raises UnreadableError where it ends one of which a segment is missing.
        """
        segment, sender = message.segment, stored.sender_id
        if message.snapshot:
            return None
        if segment is None:
            return self.opened(message.content or b"", sender)
        if not segment.count or segment.length > self.params.max_content + _SEAL:
            raise UnreadableError(f"its content is no segment, or one of {segment.length} bytes")
        places = {key: SegmentPlace(key, m.segment.index) for key, m in beside.items() if m.segment}
        kept = await self.of_store(SqliteStore.segments, stored.key, sender, segment)
        places |= {place.key: place for place in kept}
        found = sent_together(sorted(places.values()), stored.key)
        missing = segment.count - len(found)
        if missing and segment.index == segment.count - 1:
            raise UnreadableError(f"{missing} of {segment.count} segments are missing")
        if missing or max(found, key=lambda p: (p.arrival, p.key)).key != stored.key:
            return None
        parts = bytearray()
        for place in found:
            parts += await self._payload(place.key, beside)
            if len(parts) > segment.length:
                break
        whole = bytes(parts[: segment.length])
        if len(whole) < segment.length or await _digest(whole) != segment.digest:
            raise UnreadableError("its segments are not those of the content that they name")
        return self.opened(whole, sender)

    async def _payload(self, key: Key, beside: Mapping[Key, Message]) -> bytes:
        if key in beside:
            return beside[key].content or b""
        rows = await self.of_store(SqliteStore.get, [key[1]])
        return b"".join(self.codec.decode(row.raw).content or b"" for row in rows)

    def opened(self, data: bytes, sender: SenderId) -> bytes:
        """What was sealed. Raises UnreadableError."""
        if self.cipher is None:
            return data
        try:
            return self.cipher.decrypt(data, context_of(*self.place, sender))
        except Exception as error:  # whatever the application's library raises
            raise UnreadableError(f"{type(error).__name__}: {error}") from error


def sent_together(places: Sequence[SegmentPlace], key: Key) -> Sequence[SegmentPlace]:
    """Of the places of a sender's segments of one content, ascending, those around one of which the
    parts ascend, too."""
    begin = end = bisect_left(places, (key,))
    if places[begin : begin + 1] == []:
        return []
    while begin and places[begin - 1].part < places[begin].part:
        begin -= 1
    while end + 1 < len(places) and places[end].part < places[end + 1].part:
        end += 1
    return places[begin : end + 1]


def context_of(topic: str, channel_id: str, sender_id: str) -> bytes:
    """Topic, channel and sender, each with its length (4 bytes, big-endian) in front."""
    parts = (topic.encode(), channel_id.encode(), sender_id.encode())
    return b"".join(len(p).to_bytes(4, "big") + p for p in parts)


async def _digest(content: bytes) -> bytes:
    if len(content) > _AT_ONCE:
        return await trio.to_thread.run_sync(_keccak, content)
    return _keccak(content)


def _keccak(content: bytes) -> bytes:
    return keccak.new(data=content, digest_bits=256).digest()
