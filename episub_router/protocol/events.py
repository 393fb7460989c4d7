"""Events: what the driver (router, simulator or test) passes to a topic's machine.

Every event comes with the driver's `now`; the answer is a list of effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from episub_router.protocol.messages import Message
from episub_router.protocol.piece_messages import Piece, Preamble
from episub_router.protocol.types import MessageId, PeerId, SourceId


@dataclass(frozen=True, slots=True)
class JoinOverlay:
    """The application subscribed. `contacts` are nodes believed to be in the topic (E02)."""

    contacts: tuple[PeerId, ...] = ()


@dataclass(frozen=True, slots=True)
class ContactsFound:
    """More nodes believed to be in the topic: bootstrap, discovery, announced subscribers."""

    contacts: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class LeaveOverlay:
    """The application unsubscribed. The machine says goodbye and forgets its state (E14).

    `proof` is our signature for a LEAVE; without one, DISCONNECT is used.
    """

    proof: bytes = b""


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from `peer`. Gossip is trusted at once: the driver has no validation
    step. A driver that has one sends `PayloadArrived` and `PayloadAccepted` instead.

    A LEAVE is passed in only if its source has signed it, and each one only once (E14).
    """

    peer: PeerId
    message: Message


@dataclass(frozen=True, slots=True)
class PayloadArrived:
    """A GOSSIP frame came from `peer`, and its payload is still to be validated."""

    peer: PeerId
    id: MessageId
    hops: int
    tree: SourceId | None = None


@dataclass(frozen=True, slots=True)
class PayloadAccepted:
    """The payload that `peer` forwarded proved valid; `source` published it, if that is known."""

    peer: PeerId
    id: MessageId
    payload: object
    size: int = 0
    source: SourceId | None = None


@dataclass(frozen=True, slots=True)
class PayloadRejected:
    """The payload that `peer` forwarded was refused, and counts no longer. `forged`: it is not
    what its author signed, so no correct peer forwards it; a validator that refused it, or a full
    queue, says nothing about `peer`."""

    peer: PeerId
    id: MessageId
    forged: bool = False


@dataclass(frozen=True, slots=True)
class Publish:
    """The application publishes a message of its own (E30)."""

    id: MessageId
    payload: object
    size: int = 0
    source: SourceId | None = None


@dataclass(frozen=True, slots=True)
class PublishInPieces:
    """The application publishes a large message of its own: `payload` whole, of `size` bytes, for
    neighbours that take no pieces, and cut for the others (`pieces.cutting`)."""

    preamble: Preamble
    pieces: tuple[Piece, ...]
    payload: object
    size: int


@dataclass(frozen=True, slots=True)
class PayloadDropped:
    """A GOSSIP to `peer` could not be queued: the id is to be announced instead."""

    peer: PeerId
    id: MessageId
    hops: int


@dataclass(frozen=True, slots=True)
class Connected:
    """Messages can be sent to `peer` now, whichever side dialled. Repeated for a neighbour: they
    could not for a moment, and some may be lost."""

    peer: PeerId
    probed: bool = False
    """Whether the driver notices by itself when the peer's host is gone or cut off (`PeerDown`),
    and when its process has stopped (`Silent`)."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing at all has come over the connection to `peer` for longer than a process lets pass
    that runs (E15)."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class NeighborQueried:
    """The driver wants to know how far `peer` has read: query it, if it is a neighbour (E11)."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class DialFailed:
    """A `Dial` effect came to nothing."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class PeerDown:
    """The connection to `peer` closed, or a send over it failed (E15)."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class RttMeasured:
    """A round trip to `peer` took `rtt` seconds; None when the measurement failed."""

    peer: PeerId
    rtt: float | None


@dataclass(frozen=True, slots=True)
class StandingSet:
    """The application's word on `peer`, added to what it earns (`standing`); 0 takes it
    back."""

    peer: PeerId
    standing: float


BroadcastEvent: TypeAlias = (
    PayloadArrived | PayloadAccepted | PayloadRejected | PayloadDropped | Publish | PublishInPieces
)

MembershipEvent: TypeAlias = (
    JoinOverlay
    | ContactsFound
    | LeaveOverlay
    | Received
    | Connected
    | DialFailed
    | PeerDown
    | Silent
    | NeighborQueried
    | RttMeasured
)

Event: TypeAlias = BroadcastEvent | MembershipEvent | StandingSet
