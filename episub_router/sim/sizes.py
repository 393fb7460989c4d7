"""How many bytes a message takes on the wire, by a model.

Both protocols are charged alike: the same topic name, peer ids, message ids and the RPC's
framing as protobuf would encode them (docs/wire.md; libp2p/specs, gossipsub v1.0 to v1.2,
"Protobuf"). Transport and encryption overhead isn't counted. Payload bytes are kept apart
from control bytes everywhere, and what a frame adds to a payload counts as control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from episub_router.protocol import messages as msg
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceOffer,
    PiecePrune,
)

TOPIC = 2 + 20
"""A topic field; names of 20 bytes are in use on Ethereum and in Waku."""
PEER_ID = 2 + 38
"""A peer id field: the identity multihash of an Ed25519 key."""
SOURCE = 2 + 8
"""A source in what belongs to per-source trees: eight bytes of a digest of its peer id."""
MESSAGE_ID = 2 + 46
"""A message id field: libp2p's default, the author's peer id and an 8-byte sequence number."""
PEER_NAME = 3 + PEER_ID
"""A peer exchange entry that is a peer id alone."""
PEER_RECORD = 3 + 192
"""What a signed record with one address adds to it."""
PEER_INFO = PEER_NAME + PEER_RECORD
RPC = 3
"""Length prefix and an (empty) control field: what every RPC costs."""
PROOF = 6 * 34
"""The proof of one of 64 pieces."""
SIGNED_PAYLOAD = 4 + PEER_ID + 10 + TOPIC + 66
"""What a signed pubsub message adds to its data: author, sequence number, topic, signature."""

EPISUB_FRAME = RPC + 4 + 2 + TOPIC + 4
"""Tag, length, topic and sequence number of the Episub frame."""

_NESTED = 4
"""Tags and lengths of a control message inside of the frame."""
_SMALL = 2
"""A field with a small integer."""


def _tree(gossip: msg.Gossip) -> int:
    if gossip.tree is None:
        return 0
    return _SMALL if gossip.tree == gossip.source else SOURCE


_EPISUB: dict[type, Callable[[Any], int]] = {
    msg.Gossip: lambda m: _NESTED + _tree(m),
    msg.IHave: lambda m: _NESTED + len(m.summary) * (2 + MESSAGE_ID + _SMALL),
    msg.Prune: lambda m: _NESTED + (len(m.sources) + len(m.standby)) * SOURCE,
    msg.Graft: lambda m: (
        _NESTED + len(m.ids) * MESSAGE_ID + (len(m.sources) + len(m.standby)) * SOURCE
    ),
    # Round and cost are varints, of two and three bytes; the proof has eight.
    msg.Root: lambda m: (
        _NESTED + len(m.roots) * (2 + SOURCE + 3 + 4 + SOURCE) + len(m.requests) * (2 + SOURCE + 3)
    ),
    msg.GetNodes: lambda m: _NESTED + (_SMALL if m.count else 0),
    msg.Nodes: lambda m: _NESTED + _SMALL + len(m.peers) * PEER_INFO,
    msg.GetTopics: lambda m: _NESTED,
    msg.Topics: lambda m: _NESTED + len(m.topics) * TOPIC,
    msg.Join: lambda m: _NESTED + _SMALL + PEER_INFO,
    msg.ForwardJoin: lambda m: _NESTED + _SMALL + PEER_INFO,
    msg.Neighbor: lambda m: _NESTED + (3 + m.numbers_only) * _SMALL + len(m.peers) * PEER_INFO,
    msg.Disconnect: lambda m: _NESTED + _SMALL,
    msg.Leave: lambda m: _NESTED + _SMALL + PEER_ID + 160,
    msg.Shuffle: lambda m: (
        _NESTED + _SMALL + PEER_INFO + (_SMALL if m.offered else 0) + len(m.peers) * PEER_INFO
    ),
    msg.ShuffleReply: lambda m: _NESTED + len(m.peers) * PEER_INFO,
}

_PREAMBLE = MESSAGE_ID + 42 + 10 + 4 + 4 + 34 + 66
"""Id, author, sequence number, sizes, root, signature."""


def _mask(mask: int) -> int:
    return 2 + (mask.bit_length() + 7) // 8


_EPISUB |= {
    Piece: lambda m: _NESTED + MESSAGE_ID + _SMALL + 3 + PROOF,
    PieceAnnounce: lambda m: _NESTED + _PREAMBLE + _mask(m.have) + _SMALL,
    PieceOffer: lambda m: _NESTED + len(m.offers) * (2 + SOURCE + _SMALL) + _SMALL * m.accepted,
    PieceGraft: lambda m: (
        _NESTED
        + sum(2 + MESSAGE_ID + _mask(want.missing) for want in m.wants)
        + (SOURCE if m.source is not None else 0)
    ),
    PiecePrune: lambda m: _NESTED + SOURCE + len(m.instead) * PEER_ID,
}


def episub_control(message: msg.Message) -> int:
    """Control bytes of one Episub message; a GOSSIP's payload isn't in them."""
    return EPISUB_FRAME + _EPISUB[type(message)](message)


def gossipsub_ids(count: int) -> int:
    """An IHAVE with `count` ids; IWANT and IDONTWANT differ by the topic alone."""
    return RPC + 4 + TOPIC + count * MESSAGE_ID


def gossipsub_link(peers: int = 0) -> int:
    """A GRAFT, or a PRUNE with `peers` entries of peer exchange."""
    return RPC + 4 + TOPIC + 3 + peers * PEER_INFO
