"""Effects: what a topic's machine asks of its driver, in order.

`NeighborUp` and `NeighborDown` also tell the broadcast machine what membership did.
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

    NOT_NEIGHBOR = "not-neighbor"  # What only a neighbour may send, from a peer that is none
    NOT_JOINED = "not-joined"  # What came while the topic was being left
    VIEW_FULL = "view-full"  # A link refused for lack of room in the active view
    UNREACHABLE = "unreachable"  # A peer that was to become a neighbour and could not be reached
    UNSOLICITED = "unsolicited"  # An answer that nobody asked for
    ABOUT_SELF = "about-self"  # A message about this node itself that makes no sense
    MISSING_FULL = "missing-full"  # Announcements beyond the table of missing messages
    GRAFT_NOT_CACHED = "graft-not-cached"  # Messages asked for that aren't cached any more
    GRAFT_REPEATED = "graft-repeated"  # Messages that a neighbour asked for too often
    PENDING_FULL = "pending-full"  # Copies beyond those that may be in validation
    RATE_LIMITED = "rate-limited"  # More of a kind than one peer may send
    SHARE_FULL = "share-full"  # Peers beyond what one source or group may have in the view
    DIALS_FULL = "dials-full-for-others"  # Dials that messages of others asked for
    FROM_BANNED = "from-banned"  # Messages of peers that are banned
    MESSAGE_LOST = "message-lost"  # Messages that no announcer delivered
    PREAMBLE_REFUSED = "preamble-refused"  # Preambles that can't be true, or beyond those under way
    PIECE_INVALID = "piece-invalid"  # Pieces that aren't part of the message that they name
    PIECE_LATE = "piece-late"  # Pieces that were here already


class DownReason(Enum):
    """Why a neighbour left the active view."""

    FAILED = "failed"  # Connection lost, or the link was silent for too long
    ENDED = "ended"  # The peer sent DISCONNECT
    LEFT = "left"  # The peer left the overlay, or we did
    EVICTED = "evicted"  # We gave the link up for a better one
    BANNED = "banned"  # The peer broke promises, or forwarded what was forged


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to `peer`, to which a connection exists."""

    peer: PeerId
    message: Message


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a connection to `peer`; answer with `Connected` or `DialFailed`."""

    peer: PeerId
    for_others: bool = False  # Only another node's message asked for it: our own dials go first


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
    """All pieces of a large message are here, the last from `peer`: validate it, and answer with
    `PayloadAccepted`."""

    preamble: Preamble
    pieces: tuple[Piece, ...]
    peer: PeerId


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
    silent_since: Time = NEVER  # When it last sent something, where its link failed


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
    Send | Dial | Release | MeasureRtt | Deliver | Assembled | NeighborUp | NeighborDown | Ban
    | Dropped
)  # fmt: skip


class Outbox:
    """Collects the effects of one machine, in order."""

    __slots__ = ("effects",)

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        """The effects since the last call; every event ends with this."""
        effects, self.effects = self.effects, []
        return effects

    def send(self, peer: PeerId, message: Message) -> None:
        self.effects.append(Send(peer, message))

    def drop(self, peer: PeerId | None, reason: DropReason) -> None:
        self.effects.append(Dropped(peer, reason))
