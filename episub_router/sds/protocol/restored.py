"""A participant's state as a store gives it back after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.received import ReceivedMessage


@dataclass(frozen=True, slots=True)
class Restored:
    """`log` in total order; `outgoing`: the bytes of those of it that are ours and still resent.

    `departed`: by sender, the highest clock of its messages that have left the log. `acks` is as in
    `AckStored`. `damaged`: messages to be fetched again, each with whether the application was done
    with it. `since` is as in `JoinedAt`, None where that isn't decided.
    """

    clock: int
    position: int
    floor: Key | None
    log: Iterable[Message]
    incoming: Sequence[ReceivedMessage]
    outgoing: Mapping[MessageId, bytes]
    tombstones: Sequence[MessageId]
    departed: Mapping[SenderId, int] = field(default_factory=dict)
    acks: Mapping[SenderId, tuple[int, int]] = field(default_factory=dict)
    damaged: Mapping[MessageId, bool] = field(default_factory=dict)
    since: int | None = None
