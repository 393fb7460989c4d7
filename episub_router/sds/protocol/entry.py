"""A logged message: its place, what is remembered of it, and what a store gives back (S06)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A logged message's bytes, and the proof of its origin that came with them."""

    key: Key
    raw: bytes
    origin: bytes
    sender_id: SenderId = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """A channel as it was when we stopped. `log` is its newest part, in total order, which is read
    once and before anything else happens to the store.

    What waited for others is fetched again, and what is ours and isn't acknowledged is resent.
    `passed`: tombstones of what isn't lost. `departed`: by sender, the highest clock of its
    messages that have left the log. `acks` is as in `AckStored`. `damaged`: messages to be fetched
    again. `since` is as in `JoinedAt`,
    None where that isn't decided.
    """

    clock: int
    floor: Key | None
    log: Iterable[StoredMessage]
    tombstones: Sequence[MessageId]
    passed: Sequence[MessageId] = ()
    departed: Mapping[SenderId, int] = field(default_factory=dict)
    acks: Mapping[SenderId, tuple[int, int]] = field(default_factory=dict)
    damaged: Sequence[MessageId] = ()
    since: int | None = None
