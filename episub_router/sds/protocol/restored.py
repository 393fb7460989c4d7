"""A participant's state as a store gives it back after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MessageId
from episub_router.sds.protocol.received import ReceivedMessage


@dataclass(frozen=True, slots=True)
class Restored:
    """`log` in total order, each with whether it is a head; `outgoing` oldest first."""

    clock: int
    position: int
    floor: Key | None
    log: Sequence[tuple[MessageId, LogEntry, bool]]
    incoming: Sequence[ReceivedMessage]
    outgoing: Sequence[tuple[MessageId, bytes]]
    tombstones: Sequence[MessageId]
