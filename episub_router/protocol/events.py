"""Events: what the driver (router, simulator or test) passes to a topic's machine, with `now`."""

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
    """The application unsubscribed. The machine says goodbye and forgets its state (E14)."""

    proof: bytes = b""  # Our signature for a LEAVE; without one, DISCONNECT is used


@dataclass(frozen=True, slots=True)
class Received:
    """A message came from `peer`. A GOSSIP is trusted: a driver that validates it first passes
    `PayloadArrived`. A LEAVE is one that its source has signed, and passed once (E14)."""

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
    """The payload that `peer` forwarded was refused, and counts no longer."""

    peer: PeerId
    id: MessageId
    forged: bool = False  # Not what its author signed: no correct peer forwards it


@dataclass(frozen=True, slots=True)
class Publish:
    """The application publishes a message of its own (E30). `tree`: the id of our tree for messages
    that name no source; it need not say who we are."""

    id: MessageId
    payload: object
    size: int = 0
    source: SourceId | None = None
    tree: SourceId | None = None


@dataclass(frozen=True, slots=True)
class PublishInPieces:
    """The application publishes a large message: whole for neighbours that take no pieces."""

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
    """Messages can be sent to `peer` now. Repeated for a neighbour: some may be lost."""

    peer: PeerId
    probed: bool = False  # Whether the driver notices by itself when it is gone, or `Silent`


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing has come from `peer` for longer than a running process lets pass (E15)."""

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
    """The application's word on `peer`, added to what it earns (`standing`); 0 takes it back."""

    peer: PeerId
    standing: float


BroadcastEvent: TypeAlias = (
    PayloadArrived | PayloadAccepted | PayloadRejected | PayloadDropped | Publish | PublishInPieces
)

MembershipEvent: TypeAlias = (
    JoinOverlay | ContactsFound | LeaveOverlay | Received | Connected | DialFailed | PeerDown
    | Silent | NeighborQueried | RttMeasured
)  # fmt: skip

Event: TypeAlias = BroadcastEvent | MembershipEvent | StandingSet
