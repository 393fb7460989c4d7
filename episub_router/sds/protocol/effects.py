"""What a participant asks of its driver, in order.

The changes of one call belong into one transaction, and it must be committed before any other
effect of that call is carried out: what the network or the application has seen is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias

from episub_router.sds.protocol.entry import Key, LogEntry, RangeHash, StoredMessage
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.ranges import LogComparison

PeerRef: TypeAlias = str
"""A peer that can be asked over a direct stream; on libp2p its peer id in base58."""


class Purpose(Enum):
    """Why something is published. The value is the counter's name."""

    CONTENT = "content"
    RESEND = "resend"
    SYNC = "sync"
    REPAIR = "repair"
    EPHEMERAL = "ephemeral"


class DiscardReason(Enum):
    """Why something received was not acted on. The value is the counter's name."""

    WRONG_CHANNEL = "wrong-channel"
    OWN_ECHO = "own-echo"
    DUPLICATE = "duplicate"
    TOO_OLD = "too-old"
    NOT_PROVEN = "not-proven"
    """Came from someone else than its sender, without its sender's proof."""
    NOT_ASKED_FOR = "not-asked-for"
    """A sync or ephemeral message that its sender didn't just publish."""
    INCOMING_FULL = "incoming-full"
    WANTED_FULL = "wanted-full"
    REPAIR_FULL = "repair-full"
    FILTER_UNUSABLE = "filter-unusable"
    FILTER_SATURATED = "filter-saturated"
    JOINING = "joining"
    """Came before we knew where our part of the log begins; it is fetched then."""
    CLOCK_AHEAD = "clock-ahead"
    """Its clock is further ahead of our time of day than `max_clock_lead`: refused for now."""


class Change:
    """A change to what is stored."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Logged(Change):
    """`message` enters the log, next in causal order if it is another's. `missing`: dependencies
    that were given up as lost."""

    message: Message
    entry: LogEntry
    raw: bytes
    origin: bytes
    missing: tuple[MessageId, ...] = ()


@dataclass(frozen=True, slots=True)
class ClockSet(Change):
    """The clock must never be below `value` again."""

    value: int


@dataclass(frozen=True, slots=True)
class Tombstone(Change):
    """References to `message_id` count as met: it is given up as lost, or not `lost`, as it is from
    before what our log holds."""

    message_id: MessageId
    lost: bool = True


@dataclass(frozen=True, slots=True)
class Evicted(Change):
    """These messages have left the log, whose floor is now `floor`.

    `departed`: the highest clock of a sender's messages that have left, as far as it is kept; of
    senders that are forgotten under "".
    """

    places: tuple[Key, ...]
    floor: Key | None
    departed: Mapping[SenderId, int]


@dataclass(frozen=True, slots=True)
class AckStored(Change):
    """`by` has our messages with after < clock <= until."""

    by: SenderId
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class JoinedAt(Change):
    """What has no clock above `since` (ms) is none of ours, and is removed: we joined late, or have
    a snapshot in place of it."""

    since: int


@dataclass(frozen=True, slots=True)
class SnapshotKept(Change):
    """An application's state of all messages with clocks up to `until`, as it is handed out.
    `arrival`: how far it had what arrived, as `Following` has it."""

    until: int
    digest: bytes
    state: bytes
    arrival: int = 0


# The network. Of a request, `peer` is who is on the other side.


@dataclass(frozen=True, slots=True)
class BroadcastBytes:
    """Publish these bytes on the topic."""

    message_id: MessageId
    raw: bytes
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Rebroadcast:
    """Publish a logged message again, as it is stored (SDS-R)."""

    message_id: MessageId


@dataclass(frozen=True, slots=True)
class AskIds:
    """Get these messages. To this and all below the answer is `answered`, or `failed`."""

    peer: PeerRef
    ids: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class AskCompare:
    """Compare these ranges of a log, hashed with this salt."""

    peer: PeerRef
    salt: bytes
    ranges: tuple[RangeHash, ...]


@dataclass(frozen=True, slots=True)
class AskRange:
    """Get at most `limit` messages with after < key <= until, ascending or newest first; None is an
    open bound. Answer with `receive` for each, then `range_answered`."""

    peer: PeerRef
    limit: int
    after: Key | None = None
    until: Key | None = None
    ids_only: bool = False
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class AskSnapshot:
    """Get the newest snapshot that `signers` members have signed, from an offset on."""

    peer: PeerRef
    signers: int
    offset: int = 0


Ask: TypeAlias = AskIds | AskCompare | AskRange | AskSnapshot


class ResponseStatus(IntEnum):
    """How a request went; the numbers are those of the wire."""

    UNSPECIFIED = 0
    OK = 1
    BAD_REQUEST = 2
    UNKNOWN_CHANNEL = 3
    NOT_AUTHORIZED = 6

    @classmethod
    def _missing_(cls, value: object) -> ResponseStatus:
        return cls.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class Response:
    """What a peer answers. `items` have empty bytes where only ids were asked for. `next`: go on
    after this key, or newest first before it."""

    status: ResponseStatus = ResponseStatus.OK
    reason: str = ""
    items: tuple[StoredMessage, ...] = ()
    unknown_ids: tuple[MessageId, ...] = ()
    next: Key | None = None
    comparison: LogComparison | None = None
    gone: Key | None = None
    state: bytes = b""
    """A part of a snapshot, of which `items` are the statements."""
    state_size: int = 0


# The application.


@dataclass(frozen=True, slots=True)
class DeliverEphemeral:
    """Deliver at once (S14)."""

    message: Message


class Notice:
    """What the application may want to know."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PossiblyAcknowledged(Notice):
    """`by`'s filter holds our message, with this probability of being wrong (S10)."""

    message_id: MessageId
    by: SenderId
    probability: float


@dataclass(frozen=True, slots=True)
class Acknowledged(Notice):
    """`by` has our message."""

    message_id: MessageId
    by: SenderId


@dataclass(frozen=True, slots=True)
class Expired(Notice):
    """Our message is not resent any more. It stays in the log and can still be asked for."""

    message_id: MessageId


@dataclass(frozen=True, slots=True)
class Missing(Notice):
    """`message_id` waits for these dependencies."""

    message_id: MessageId
    dependencies: tuple[MessageId, ...]


@dataclass(frozen=True, slots=True)
class Lost(Notice):
    """This dependency was given up (S11)."""

    message_id: MessageId


@dataclass(frozen=True, slots=True)
class Found(Notice):
    """A dependency that was missing has arrived, `after` seconds after it was missed."""

    message_id: MessageId
    after: float


@dataclass(frozen=True, slots=True)
class UnreadDropped(Notice):
    """Messages left the log before a reader had them: it lacks some with clocks up to `until`."""

    until: int


@dataclass(frozen=True, slots=True)
class EphemeralDropped(Notice):
    """An ephemeral message was not sent, as the rate limit was near (LIP-173)."""

    message_id: MessageId


@dataclass(frozen=True, slots=True)
class StoreFull(Notice):
    """There is no room to store what came: it is taken when there is."""

    detail: str


@dataclass(frozen=True, slots=True)
class ClockAhead(Notice):
    """A message of `by` was refused: its clock is `seconds` ahead of our time of day.

    One of the two is wrong by more than `max_clock_lead`. The message is taken when that is past.
    """

    by: SenderId
    seconds: float


@dataclass(frozen=True, slots=True)
class Discarded:
    """Something from `by` was not acted on; count it."""

    by: SenderId
    reason: DiscardReason


Effect: TypeAlias = (
    Change | BroadcastBytes | Rebroadcast | Ask | DeliverEphemeral | Notice | Discarded
)
