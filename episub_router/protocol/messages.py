"""The protocol's messages, one frozen dataclass each (clause E42).

The specification's envelope, a source and a sequence id, belongs to `wire`. Peers are named by id
alone: their signed address records stay in the router's address book. What comes from a peer is
within the bounds of the wire format, which the driver checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from episub_router.protocol.piece_messages import PieceMessage
from episub_router.protocol.types import MessageId, PeerId, SourceId

MAX_HOPS = 64  # Of a payload. Chosen: far above the diameter of any bounded-degree overlay
MAX_NODES = 16  # Peers in one NODES at most. gossipsub v1.1: PX sends 16 peers
MAX_IDS = 100  # Ids in one IHAVE or GRAFT at most. iroh-gossip PR 135


class LinkKind(IntEnum):
    """What a link of the active view is for (spec, "Design Parameters for View Sizes")."""

    RANDOM = 0  # One of the C_rand links that keep the overlay connected
    NEAR = 1  # One of the C_near links that follow proximity


class NeighborRole(IntEnum):
    """NEIGHBOR's roles; the specification has two, which the wire format tells apart (E09, E11)."""

    REQUEST = 0  # The sender asks to become a neighbour
    ACCEPT = 1  # The sender has put the receiver into its active view
    QUERY = 2  # Asks for the receiver's active view, and whether the link still stands
    LIST = 3  # Answer to QUERY


@dataclass(frozen=True, slots=True)
class GetNodes:
    """GETNODES: asks a subscribed node for peers (E03), at most `count` where that isn't 0."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Nodes:
    """NODES: answers GETNODES with a sample of both views (E03), and SHUFFLEREPLY with what the
    shuffle offers. `ttl`: the walk length suggested for the JOINs that follow."""

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
    """NEIGHBOR: asks for, grants, checks or describes an active link (E09-E12)."""

    role: NeighborRole
    links: int  # Active links of the sender (E10)
    kind: LinkKind = LinkKind.RANDOM  # What the link is for, on both ends
    peers: tuple[PeerId, ...] = ()  # The sender's active view, with LIST
    random_links: int = 0  # Random ones of `links` (E16, E18)
    numbers_only: bool = False  # QUERY doesn't ask for `peers`; LIST leaves them out therefore


@dataclass(frozen=True, slots=True)
class Disconnect:
    """DISCONNECT: rejects a NEIGHBOR request or ends a link (E09, E14)."""

    alive: bool = True  # False: the sender leaves the overlay, and isn't to be remembered


@dataclass(frozen=True, slots=True)
class Leave:
    """LEAVE: `source` has left; forget it everywhere (E14)."""

    source: PeerId
    ttl: int
    proof: bytes = b""  # The source's signature, which the driver checks


@dataclass(frozen=True, slots=True)
class Shuffle:
    """SHUFFLE: `peer` offers peers in exchange for others, along a random walk (E19). `offered`: so
    many, which go to the node that replies, as NODES; 0: `peers` are all."""

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
    """GOSSIP: one payload message, pushed (E30, E32)."""

    id: MessageId
    hops: int  # Links from the publisher to the receiver
    payload: object
    size: int = 0  # Bytes of the payload, for the cache's bound
    source: SourceId | None = None  # The publisher, where that is known
    tree: SourceId | None = None  # The source whose tree it is pushed along; None: the shared one


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
    """PRUNE: stop pushing over this link, announce instead (E31): in the trees of `sources`, or the
    shared one if neither is given. `standby`: don't announce their messages at once any more."""

    sources: tuple[SourceId, ...] = ()
    standby: tuple[SourceId, ...] = ()


@dataclass(frozen=True, slots=True)
class Graft:
    """GRAFT: push over this link again, and send these messages (E35, E36, E40): in the trees of
    `sources`, or the shared one if nothing is given. `standby`: announce their messages at once."""

    ids: tuple[MessageId, ...] = ()
    sources: tuple[SourceId, ...] = ()
    standby: tuple[SourceId, ...] = ()


class TreeRoot(NamedTuple):
    """The tree of `source` as the sender of a ROOT offers it: the `round`, `cost` seconds from the
    source to the sender, the `proof` of the round."""

    source: SourceId
    round: int
    cost: float
    proof: bytes = b""


class RootRequest(NamedTuple):
    """Asks `source` for a round after `round`, in which the sender lost its way to the source."""

    source: SourceId
    round: int


@dataclass(frozen=True, slots=True)
class Root:
    """ROOT: the sender can push what these sources publish. Beyond the specification."""

    roots: tuple[TreeRoot, ...] = ()
    requests: tuple[RootRequest, ...] = ()  # From children to parents


MembershipMessage: TypeAlias = (
    GetNodes | Nodes | GetTopics | Topics | Join | ForwardJoin | Neighbor | Disconnect | Leave
    | Shuffle | ShuffleReply
)  # fmt: skip
BroadcastMessage: TypeAlias = Gossip | IHave | Prune | Graft | Root
Message: TypeAlias = MembershipMessage | BroadcastMessage | PieceMessage

BROADCAST_MESSAGES = (Gossip, IHave, Prune, Graft, Root)  # For `isinstance`
