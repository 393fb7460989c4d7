"""A channel's messages as values, and the ids that we give to our own (S01)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

MessageId: TypeAlias = str
SenderId: TypeAlias = str

MAX_LAMPORT = 2**64 - 1
MAX_PARTS = 256
"""Pieces of one content besides the last (ours): 128 MiB in pieces of 512 KiB."""


class Kind(Enum):
    """The kind of a message, which follows from the fields that are set."""

    CONTENT = "content"
    """Clock and content: logged, delivered in causal order, acknowledged."""
    SYNC = "sync"
    """Clock without content (S13): history and filter only."""
    EPHEMERAL = "ephemeral"
    """Content without a clock (S14): delivered at once, never logged."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One id of a causal history or repair request, with what helps to find it."""

    message_id: MessageId
    retrieval_hint: bytes | None = None
    sender_id: SenderId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a channel. `lamport` is in milliseconds of Unix time, or a bare count."""

    message_id: MessageId
    channel_id: str
    sender_id: SenderId = ""
    lamport: int | None = None
    causal_history: tuple[HistoryEntry, ...] = ()
    bloom_filter: bytes | None = None
    repair_request: tuple[HistoryEntry, ...] = ()
    content: bytes | None = None
    more_history: tuple[MessageId, ...] = ()
    """Where `causal_history` would be too long, the rest of it."""
    gaps: tuple[MessageId, ...] = ()
    """Ids of the sender's past that it hasn't delivered; `gaps_more`: there are others."""
    gaps_more: bool = False
    since: int = 0
    """The sender joined late: it has nothing whose clock is not above this."""
    part: bool = False
    """A piece of a larger content, which a later message completes."""
    parts: tuple[MessageId, ...] = ()
    """The pieces that precede this content, in order."""
    seed: bool = field(default=False, compare=False)
    """Whether it came in the first schema, whose clock is the low 32 bits."""

    @property
    def history(self) -> list[HistoryEntry]:
        """The whole causal history, without the message itself."""
        entries = [*self.causal_history, *map(HistoryEntry, self.more_history)]
        return [e for e in entries if e.message_id != self.message_id]

    @property
    def history_ids(self) -> list[MessageId]:
        """The ids of `history`."""
        ids = [e.message_id for e in self.causal_history]
        if self.more_history:
            ids += self.more_history
        return [i for i in ids if i != self.message_id] if self.message_id in ids else ids

    @property
    def kind(self) -> Kind | None:
        """None where neither clock nor content is set."""
        if self.content:
            return Kind.EPHEMERAL if self.lamport is None else Kind.CONTENT
        return None if self.lamport is None else Kind.SYNC


def message_id(
    channel_id: str,
    sender_id: SenderId,
    lamport: int,
    content: bytes,
    *,
    part: bool = False,
    parts: Sequence[MessageId] = (),
) -> MessageId:
    """The id of our own messages: sha256 in hex over all four, each with its length.

    Of a content in pieces it covers what makes them one, too. Unlike a hash of the content alone
    it distinguishes equal contents, and everyone that holds the message can verify it.
    """
    digest = hashlib.sha256()
    fields = [channel_id.encode(), sender_id.encode(), lamport.to_bytes(8, "big"), content]
    if part or parts:
        fields += [bytes([part]), *(piece.encode() for piece in parts)]
    for field_ in fields:
        digest.update(len(field_).to_bytes(8, "big"))
        digest.update(field_)
    return digest.hexdigest()


def has_true_id(message: Message, lamport: int) -> bool:
    """Whether a message with this clock has the id that we would give it."""
    return message.message_id == message_id(
        message.channel_id,
        message.sender_id,
        lamport,
        message.content or b"",
        part=message.part,
        parts=message.parts,
    )
