"""A channel's messages as values (S01)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

MessageId: TypeAlias = str
SenderId: TypeAlias = str

MAX_LAMPORT = 2**64 - 1


class Kind(Enum):
    """The kind of a message, which follows from the fields that are set."""

    CONTENT = "content"
    """Clock and content: logged, delivered in causal order, acknowledged."""
    SYNC = "sync"
    """Clock without content (S13): history only."""
    EPHEMERAL = "ephemeral"
    """Content without a clock (S14): delivered at once, never logged."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One id of a causal history or repair request, with what helps to find it."""

    message_id: MessageId
    retrieval_hint: bytes | None = None
    sender_id: SenderId | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """Which part of a larger content a message has (LIP-243).

    `digest` is the Keccak-256 of the whole, which has `length` bytes in `count` parts. A count of 0
    is that of a content that should be a segment and is none.
    """

    digest: bytes = b""
    index: int = 0
    count: int = 0
    length: int = 0

    @property
    def of(self) -> bytes:
        """What all segments of one content have in common."""
        return self.digest + self.count.to_bytes(4, "big") + self.length.to_bytes(4, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a channel. `lamport` is in milliseconds of Unix time, or a bare count.

    `message_id` is the hash of the author's bytes, which the codec computes; empty until then.
    """

    message_id: MessageId = ""
    channel_id: str
    sender_id: SenderId = ""
    lamport: int | None = None
    causal_history: tuple[HistoryEntry, ...] = ()
    bloom_filter: bytes | None = None
    repair_request: tuple[HistoryEntry, ...] = ()
    content: bytes | None = None
    gaps: tuple[MessageId, ...] = ()
    """Ids of the sender's past that it hasn't delivered; `gaps_more`: there are others."""
    gaps_more: bool = False
    since: int = 0
    """The sender joined late: it has nothing whose clock is not above this."""
    segment: Segment | None = None
    """The content is a part of a larger one."""
    snapshot: int = 0
    """The content is the sha256 of what an application made of all messages up to this clock."""

    @property
    def key(self) -> tuple[int, MessageId]:
        """Its place in the total order."""
        return self.lamport or 0, self.message_id

    @property
    def history_ids(self) -> list[MessageId]:
        """The ids of the causal history, without the message itself."""
        return [e.message_id for e in self.causal_history if e.message_id != self.message_id]

    @property
    def kind(self) -> Kind | None:
        """None where neither clock nor content is set."""
        if self.content:
            return Kind.EPHEMERAL if self.lamport is None else Kind.CONTENT
        return None if self.lamport is None else Kind.SYNC


class Way(Enum):
    """How a message came to us, which decides what it proves."""

    BROADCAST = "broadcast"
    """Published by its sender, or by a peer that nothing distinguishes from its sender."""
    RELAYED = "relayed"
    """Published or handed out by another member: tells nothing of the present."""
    UNPROVEN = "unproven"
    """Nothing shows that its sender made it: it is dropped."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as it came: its value, its bytes, and its way.

    `source` is a peer that should have what the message refers to. `origin` is kept with the
    message and handed out with it; the participant doesn't look into it.
    """

    message: Message
    raw: bytes
    way: Way = Way.BROADCAST
    source: str | None = None
    origin: bytes = b""
