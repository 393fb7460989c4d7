"""The protocol's messages, one frozen dataclass each (clause E42).

The envelope that the specification puts around every message, its source and its monotonic
sequence id, belongs to `wire`; the core gets the neighbour that a message came from. Peers are
named by id alone: their signed address records stay in the router's address book.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from episub_router.protocol.piece_messages import PieceMessage
from episub_router.protocol.types import MessageId, PeerId, SourceId

MAX_HOPS = 64
"""Largest hop count of a payload. Ours: far above the diameter of any bounded-degree overlay."""

MAX_NODES = 16
"""Peers in one NODES at most. gossipsub v1.1: PX sends 16 peers."""

MAX_IDS = 100
"""Ids in one IHAVE or GRAFT at most. iroh-gossip PR 135."""


class LinkKind(IntEnum):
    """What a link of the active view is for (spec, "Design Parameters for View Sizes")."""

    RANDOM = 0
    """One of the C_rand links that keep the overlay connected."""
    NEAR = 1
    """One of the C_near links that follow proximity."""


class NeighborRole(IntEnum):
    """NEIGHBOR's roles; the specification has two, which the wire format tells apart (E09, E11)."""

    REQUEST = 0
    """The sender asks to become a neighbour."""
    ACCEPT = 1
    """The sender has put the receiver into its active view."""
    QUERY = 2
    """A neighbour asks for the receiver's active view, and whether the link still stands."""
    LIST = 3
    """Answer to QUERY."""


@dataclass(frozen=True, slots=True)
class GetNodes:
    """GETNODES: asks a subscribed node for peers (E03), at most `count` where that isn't 0."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Nodes:
    """NODES: answers GETNODES with a sample of both views (E03), and SHUFFLEREPLY with what the
    shuffle offers.

    `ttl` is the walk length that the answering node suggests for the JOINs that follow; the
    specification never says what it is for.
    """

    peers: tuple[PeerId, ...]
    ttl: int


@dataclass(frozen=True, slots=True)
class GetTopics:
    """GETTOPICS: asks whether a node is still subscribed (E21)."""


@dataclass(frozen=True, slots=True)
class Topics:
    """TOPICS: the topics, among those that the asker may know of, that the sender is in."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """JOIN: `peer` looks for a random neighbour; walks until somebody accepts (E04-E06)."""

    peer: PeerId
    ttl: int


@dataclass(frozen=True, slots=True)
class ForwardJoin:
    """FORWARDJOIN: adds the new node `peer` to passive views along a random walk (E07)."""

    peer: PeerId
    ttl: int


@dataclass(frozen=True, slots=True)
class Neighbor:
    """NEIGHBOR: asks for, grants, checks or describes an active link (E09-E12).

    `links` is how many active links the sender has (E10), `random_links` how many of them are
    random (E16, E18). `peers` is the sender's active view, sent with LIST. `kind` is what the
    link is for, on both ends. `numbers_only`: with QUERY, `peers` aren't asked for; with LIST, they
    are left out for that reason.
    """

    role: NeighborRole
    links: int
    kind: LinkKind = LinkKind.RANDOM
    peers: tuple[PeerId, ...] = ()
    random_links: int = 0
    numbers_only: bool = False


@dataclass(frozen=True, slots=True)
class Disconnect:
    """DISCONNECT: rejects a NEIGHBOR request or ends a link (E09, E14).

    `alive` is False when the sender is leaving the overlay, so that it isn't remembered.
    """

    alive: bool = True


@dataclass(frozen=True, slots=True)
class Leave:
    """LEAVE: `source` has left; forget it everywhere (E14).

    `proof` is the source's signature over topic and leave, opaque here; the driver checks it
    before the message reaches the core, so that no peer can expel others.
    """

    source: PeerId
    ttl: int
    proof: bytes = b""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """SHUFFLE: `peer` offers peers in exchange for others, along a random walk (E19).

    `offered`: so many peers; `peer` sends them, as NODES, to the node that replies, so that they
    needn't go along the walk. 0: `peers` are all that is offered.
    """

    peer: PeerId
    ttl: int
    offered: int = 0
    peers: tuple[PeerId, ...] = ()


@dataclass(frozen=True, slots=True)
class ShuffleReply:
    """SHUFFLEREPLY: the other half of the exchange, sent straight to the origin (E19)."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True)
class Gossip:
    """GOSSIP: one payload message, pushed (E30, E32).

    `hops` counts the links from the publisher to the receiver, 1 on the first. `payload` is
    opaque to the core; `size` is its bytes, for the cache's bound. `source` is its publisher,
    None where that isn't known. `tree` is the source whose tree it is pushed along, None for the
    topic's shared tree.
    """

    id: MessageId
    hops: int
    payload: object
    size: int = 0
    source: SourceId | None = None
    tree: SourceId | None = None


class MessageSummary(NamedTuple):
    """One line of an IHAVE: `hops` is what a GOSSIP from the announcer would carry."""

    id: MessageId
    hops: int


@dataclass(frozen=True, slots=True)
class IHave:
    """IHAVE: ids that the sender holds and has not pushed over this link (E33)."""

    summary: tuple[MessageSummary, ...]


@dataclass(frozen=True, slots=True)
class Prune:
    """PRUNE: stop pushing over this link, announce instead (E31).

    With `sources` it concerns the trees of these sources alone; with `standby` it ends the sender's
    wish to have their messages announced at once. With neither it concerns the shared tree.
    """

    sources: tuple[SourceId, ...] = ()
    standby: tuple[SourceId, ...] = ()


@dataclass(frozen=True, slots=True)
class Graft:
    """GRAFT: push over this link again, and send these messages (E35, E36, E40).

    `sources`: push what goes along the trees of these sources. `standby`: announce each message
    along their trees at once. Without both, and without `ids`, it concerns the shared tree.
    """

    ids: tuple[MessageId, ...] = ()
    sources: tuple[SourceId, ...] = ()
    standby: tuple[SourceId, ...] = ()


class TreeRoot(NamedTuple):
    """The tree of `source` as the sender of a ROOT offers it: the `round` that the source counts,
    `hops` links from the source to the receiver, `cost` seconds from the source to the sender."""

    source: SourceId
    round: int
    hops: int
    cost: float


class RootRequest(NamedTuple):
    """Asks `source` for a round after `round`, in which the sender lost its way to the source."""

    source: SourceId
    round: int


@dataclass(frozen=True, slots=True)
class Root:
    """ROOT: the sender can push what these sources publish. Beyond the specification.

    The first copy of a round names the neighbour on the fastest way from the source. `requests`
    travel the other way, from children to parents.
    """

    roots: tuple[TreeRoot, ...] = ()
    requests: tuple[RootRequest, ...] = ()


MembershipMessage: TypeAlias = (
    GetNodes
    | Nodes
    | GetTopics
    | Topics
    | Join
    | ForwardJoin
    | Neighbor
    | Disconnect
    | Leave
    | Shuffle
    | ShuffleReply
)
BroadcastMessage: TypeAlias = Gossip | IHave | Prune | Graft | Root
Message: TypeAlias = MembershipMessage | BroadcastMessage | PieceMessage

BROADCAST_MESSAGES = (Gossip, IHave, Prune, Graft, Root)
"""Those of `BroadcastMessage`, for `isinstance`."""
