"""A participant's state as a store gives it back after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.received import ReceivedMessage


@dataclass(frozen=True, slots=True)
class Restored:
    """`log` in total order, each with whether it is a head; `outgoing` oldest first.

    `departed`: by sender, the highest clock of its messages that have left the log. `acks`: the
    holders of our messages. `damaged`: messages to be fetched again, each with whether
    the application was done with it. `since` is as in `JoinedAt`, None where that isn't decided.
    """

    clock: int
    position: int
    floor: Key | None
    log: Sequence[tuple[MessageId, LogEntry, bool]]
    incoming: Sequence[ReceivedMessage]
    outgoing: Sequence[tuple[MessageId, bytes]]
    tombstones: Sequence[MessageId]
    departed: Mapping[SenderId, int] = field(default_factory=dict)
    acks: Mapping[MessageId, Sequence[SenderId]] = field(default_factory=dict)
    damaged: Mapping[MessageId, bool] = field(default_factory=dict)
    since: int | None = None
