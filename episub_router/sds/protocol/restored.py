"""A participant's state as a store gives it back after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.message import MessageId, SenderId


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A logged message's bytes, and the proof of its origin that came with them."""

    key: Key
    raw: bytes
    origin: bytes
    sender_id: SenderId = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """A channel as it was when we stopped. `log` is its newest part, in total order.

    What waited for others is fetched again. `outgoing`: the bytes of those of `log` that are ours
    and still resent. `departed`: by sender, the highest clock of its messages that have left the
    log. `acks` is as in `AckStored`. `damaged`: messages to be fetched again, each with whether the
    application was done with it. `since` is as in `JoinedAt`, None where that isn't decided.
    """

    clock: int
    position: int
    floor: Key | None
    log: Sequence[StoredMessage]
    outgoing: Mapping[MessageId, bytes]
    tombstones: Sequence[MessageId]
    departed: Mapping[SenderId, int] = field(default_factory=dict)
    acks: Mapping[SenderId, tuple[int, int]] = field(default_factory=dict)
    damaged: Mapping[MessageId, bool] = field(default_factory=dict)
    since: int | None = None
