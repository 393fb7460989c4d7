"""Frames as the router sees them, and what can be wrong with one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from episub_router.protocol.messages import Message


class WireError(Exception):
    """A frame of which nothing can be used. The text names what was wrong."""


class WireFault(Enum):
    """Why a part of a frame was dropped. The value is the counter's name.

    Everything beyond a list's bound counts as one fault.
    """

    UNKNOWN_MESSAGE = "unknown-message"
    """A control message of a kind that this version doesn't know, or of none."""
    UNKNOWN_ENUM = "unknown-enum"  # A field with a value that this version doesn't know
    BAD_PEER_ID = "bad-peer-id"  # A peer id that is none
    BAD_MESSAGE_ID = "bad-message-id"  # A message id that is empty or too long
    BAD_TOPIC = "bad-topic"  # A topic that is empty or too long
    BAD_PROOF = "bad-proof"  # A proof of LEAVE that is too long, or one of ROOT not of eight bytes
    BAD_SOURCE = "bad-source"
    """A source that isn't eight bytes, or the tree of an author that the payload doesn't name."""
    BAD_PREAMBLE = "bad-preamble"
    """Sizes, a root, a key or a signature that no large message can have."""
    BAD_PIECE = "bad-piece"
    """An empty or too large piece, an index or a proof that no message can have."""
    BAD_MASK = "bad-mask"
    """A bit mask of more pieces than a message can have."""
    RECORD_TOO_LARGE = "record-too-large"  # A peer record beyond the limit
    TTL_RANGE = "ttl-range"  # A time to live beyond the limit
    HOPS_RANGE = "hops-range"  # A hop count beyond the limit
    LINKS_RANGE = "links-range"  # A number of links beyond the limit
    TOO_MANY_MESSAGES = "too-many-messages"  # Control messages beyond what a frame may hold
    TOO_MANY_PEERS = "too-many-peers"  # Peers beyond what a message may hold
    TOO_MANY_RECORDS = "too-many-records"  # Peer records beyond what a frame may hold
    TOO_MANY_IDS = "too-many-ids"  # Ids beyond what one message may hold
    TOO_MANY_TOPICS = "too-many-topics"  # Topics beyond what a message may hold
    TOO_MANY_SOURCES = "too-many-sources"  # Sources beyond what a message may hold
    NO_PAYLOAD = "no-payload"
    """A gossip header without a payload."""
    SEVERAL_PAYLOADS = "several-payloads"
    """A gossip header that could belong to any of several payloads."""
    PAYLOAD_TOPIC = "payload-topic"
    """A gossip header with a payload of another topic."""


class PartDropped(Exception):
    """The part of a frame that is being read is to be dropped."""

    def __init__(self, fault: WireFault) -> None:
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Frame:
    """What to send to one peer: messages of one topic, at most one of them a Gossip.

    Peers are the bytes of libp2p peer ids, and a Gossip's payload is the `rpc_pb2.Message`.
    `seq` is the next of the sequence ids that the receiving peer gets from us (1 to 2^64-1).
    """

    topic: str
    seq: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A frame from a peer: `messages` in the sender's order, without the Gossip.

    `hops` belongs to the RPC's one payload; None when there is no usable gossip header. `tree`
    is the source whose tree the payload goes along, None for the shared tree.
    `records` are unverified pairs of a peer id and a signed peer record (envelope bytes).
    """

    topic: str
    seq: int
    messages: tuple[Message, ...]
    hops: int | None
    records: tuple[tuple[bytes, bytes], ...]
    faults: tuple[WireFault, ...]
    tree: bytes | None = None
