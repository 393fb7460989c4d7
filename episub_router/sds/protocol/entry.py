"""A logged message's place and what is remembered of it in memory (S06)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from episub_router.sds.protocol.message import MessageId, SenderId

Key: TypeAlias = tuple[int, MessageId]
"""A place in the total order. Ids compare by code point, which is their UTF-8 byte order. No id is
empty: (n + 1, "") comes after everything with the number n, and before all else."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What is remembered in memory of a logged message."""

    lamport: int
    sender_id: SenderId
    own_seen: int
    """The highest clock of our own messages among this message's causal ancestors and itself."""
    size: int = 0
    """Bytes of the message."""


@dataclass(frozen=True, slots=True)
class RangeHash:
    """The messages with after < key <= until, which two logs compare: how many, and their salted
    hash. None is an open bound.
    """

    after: Key | None
    until: Key | None
    count: int
    hash: bytes
