"""Which messages are worth a look at their signatures: what nobody signed is in none of them.

A forwarder could add to a message what its signature doesn't cover, under the same id, and
everybody would pass it on.
"""

from __future__ import annotations

from hashlib import sha256

from libp2p.pubsub.pb.rpc_pb2 import Message

from episub_router.pubsub.drops import PubsubDrop
from episub_router.util.message_size import has_unknown_fields
from episub_router.wire.keys import MAX_KEY_BYTES, is_affordable
from episub_router.wire.limits import DEFAULT_LIMITS

MAX_TOPIC_BYTES = DEFAULT_LIMITS.max_topic_bytes

MAX_SIGNATURE_BYTES = 512
"""An RSA key of 4,096 bits makes as many."""

_MAX_SEQNO_BYTES = 64
"""Chosen: the specification has 8, and other authors' numbers are signed."""

MAX_TOPICS = 8
"""Distinct topics of one message; chosen: go-libp2p's messages have one."""

_IDENTITY, _SHA2_256 = b"\x00", b"\x12\x20"


def is_topic(topic: object) -> bool:
    """Whether it is UTF-8 (protobuf gives bytes if not) and of a bearable length."""
    return isinstance(topic, str) and len(topic.encode()) <= MAX_TOPIC_BYTES


def fault_of(message: Message, *, authored: bool = True) -> PubsubDrop | None:
    """Why `message` is to be dropped before its signature is looked at, if it is; `authored` says
    whether messages may name an author."""
    topics = message.topicIDs
    if len(topics) > MAX_TOPICS or len(set(topics)) < len(topics):
        return PubsubDrop.TOPICS_REFUSED
    if not all(map(is_topic, topics)):
        return PubsubDrop.TOPIC_UNREADABLE
    # StrictNoSign forbids these fields, be they empty.
    if not authored and any(
        message.HasField(name) for name in ("from_id", "seqno", "signature", "key")
    ):
        return PubsubDrop.MESSAGE_AUTHORED
    if (
        len(message.signature) > MAX_SIGNATURE_BYTES
        or len(message.seqno) > _MAX_SEQNO_BYTES
        or not _has_fitting_key(message)
        or has_unknown_fields(message)
    ):
        return PubsubDrop.MESSAGE_PADDED
    if message.key and not is_affordable(message.key):
        return PubsubDrop.KEY_COSTLY
    return None


def _has_fitting_key(message: Message) -> bool:
    """Whether `key` is the one in the author's id, or the one that the id is the hash of.

    py-libp2p sends it along where the id has it, too.
    """
    key, author = message.key, message.from_id
    if not key:
        return True
    if author.startswith(_IDENTITY):
        return author[2:] == key
    if author.startswith(_SHA2_256):
        return author[2:] == sha256(key).digest()
    return len(key) <= MAX_KEY_BYTES
