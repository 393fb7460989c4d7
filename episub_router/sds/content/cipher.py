"""Contents that only members with a key can read."""

from __future__ import annotations

from typing import Protocol


class ContentCipher(Protocol):
    """Encrypts the contents of one channel; what carries them (ids, senders, clocks) stays open.

    `context` is authenticated with the content and not part of the result: the topic, the channel
    and the sender, so that a content can't be passed off as another one's.
    """

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        """The content as others may see it."""

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """The content. Raises whatever it likes where `data` isn't one: it counts as unreadable."""


def context_of(topic: str, channel_id: str, sender_id: str) -> bytes:
    """Topic, channel and sender, each with its length (4 bytes, big-endian) in front."""
    parts = (topic.encode(), channel_id.encode(), sender_id.encode())
    return b"".join(len(p).to_bytes(4, "big") + p for p in parts)
