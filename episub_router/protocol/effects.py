"""Effects: what a topic's machine asks of its driver, in order.

`NeighborUp` and `NeighborDown` also join the two machines inside a topic: membership emits
them, broadcast handles them, and the driver sees them as information.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from episub_router.protocol.messages import LinkKind, Message
from episub_router.protocol.piece_messages import Piece, Preamble
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time


class DropReason(Enum):
    """Why something received was not acted on. The value is the counter's name."""

    HOPS_INVALID = "hops-invalid"
    TTL_INVALID = "ttl-invalid"
    NOT_NEIGHBOR = "not-neighbor"
    NOT_JOINED = "not-joined"
    VIEW_FULL = "view-full"
    UNREACHABLE = "unreachable"
    UNSOLICITED = "unsolicited"
    ABOUT_SELF = "about-self"
    TOO_MANY_IDS = "too-many-ids"
    MISSING_FULL = "missing-full"
    GRAFT_NOT_CACHED = "graft-not-cached"
    GRAFT_REPEATED = "graft-repeated"
    PENDING_FULL = "pending-full"
    RATE_LIMITED = "rate-limited"
    """More of a kind than one peer may send."""
    SHARE_FULL = "share-full"
    """Peers that would have given one source, or one group, too much of the passive view."""
    DIALS_FULL = "dials-full-for-others"
    """A dial that another node's message asked for, with too many of those under way."""
    FROM_BANNED = "from-banned"
    """A message of a peer that is banned."""
    MESSAGE_LOST = "message-lost"
    PREAMBLE_REFUSED = "preamble-refused"
    """A large message that can't be what its preamble says, or with too many under way."""
    PIECE_INVALID = "piece-invalid"
    """A piece that isn't part of the message that it names."""
    PIECE_LATE = "piece-late"
    """A piece that is here already."""


class DownReason(Enum):
    """Why a neighbour left the active view."""

    FAILED = "failed"
    """Connection lost, or the link was silent for too long."""
    ENDED = "ended"
    """The peer sent DISCONNECT."""
    LEFT = "left"
    """The peer left the overlay, or we did."""
    EVICTED = "evicted"
    """We gave the link up for a better one."""
    BANNED = "banned"
    """The peer broke promises, or forwarded what was forged."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to `peer`, to which a connection exists."""

    peer: PeerId
    message: Message


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a connection to `peer`; answer with `Connected` or `DialFailed`.

    `for_others`: only another node's message asked for it, so dials of our own go first.
    """

    peer: PeerId
    for_others: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """This topic needs the connection to `peer` no longer: close it if no other topic does."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class MeasureRtt:
    """Measure the round trip to `peer`; answer with `RttMeasured`."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class Deliver:
    """`id` is new here: pass it to the application. `peer` is None for our own message."""

    id: MessageId
    payload: object
    peer: PeerId | None
    hops: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """All pieces of a large message are here, in order: validate it, and answer with
    `PayloadAccepted` if it is valid. `peer` brought the last one."""

    preamble: Preamble
    pieces: tuple[Piece, ...]
    peer: PeerId
    hops: int


@dataclass(frozen=True, slots=True)
class NeighborUp:
    """`peer` entered the active view."""

    peer: PeerId
    kind: LinkKind


@dataclass(frozen=True, slots=True)
class NeighborDown:
    """`peer` left the active view."""

    peer: PeerId
    reason: DownReason
    silent_since: Time = NEVER
    """When it last sent something, where its link failed."""


@dataclass(frozen=True, slots=True)
class Ban:
    """`peer` is banned for `seconds`: its link has ended, and it gets none. Don't connect to it."""

    peer: PeerId
    seconds: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something from `peer` (None: a timer) was not acted on; count it."""

    peer: PeerId | None
    reason: DropReason


Effect: TypeAlias = (
    Send
    | Dial
    | Release
    | MeasureRtt
    | Deliver
    | Assembled
    | NeighborUp
    | NeighborDown
    | Ban
    | Dropped
)
