"""Hypothesis strategies for frames, and helpers to build RPCs by hand."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import messages as m
from episub_router.protocol import piece_messages as pm
from episub_router.protocol.pieces.cutting import LARGEST_PIECE, MAX_SIZE, SMALLEST_PIECE
from episub_router.wire import Authorship, Frame, WireLimits, source_id

LIMITS = WireLimits()


def peer_id(number: int) -> bytes:
    """A well-formed peer id: an identity multihash for even numbers, SHA2-256 for odd ones."""
    if number % 2:
        return b"\x12\x20" + number.to_bytes(32)
    return b"\x00\x24\x08\x01\x12\x20" + number.to_bytes(32)


def record_of(peer: bytes) -> bytes | None:
    """A stand-in for a signed record; some peers have none."""
    return b"record of " + peer if peer[-1] % 3 else None


def payload(topic: str, data: bytes = b"data") -> rpc_pb2.Message:
    return rpc_pb2.Message(
        from_id=peer_id(2), seqno=b"\x00" * 8, data=data, topicIDs=[topic], signature=b"s" * 64
    )


def rpc_with(frame: pb.EpisubFrame | bytes, *payloads: rpc_pb2.Message) -> rpc_pb2.RPC:
    """The RPC around a frame, as it comes out of the receiver's parser."""
    rpc = rpc_pb2.RPC(publish=payloads)
    rpc.control.SetInParent()
    body = frame if isinstance(frame, bytes) else frame.SerializeToString()
    return rpc_pb2.RPC.FromString(rpc.SerializeToString() + field(body))


def field(body: bytes) -> bytes:
    """`body` as the RPC's Episub field."""
    return varint(pb.EpisubRpc.EPISUB_FIELD_NUMBER << 3 | 2) + varint(len(body)) + body


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def damaged(rng: Random, raw: bytes) -> bytes:
    """`raw` with up to four changes: bits, bytes, insertions, deletions."""
    out = bytearray(raw)
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(4):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.randrange(256)
            case 2:
                out[at:at] = rng.choice((raw[at:][: rng.randrange(40)], rng.randbytes(8)))
            case _:
                del out[at : at + rng.randrange(8)]
    return bytes(out)


peer_ids = st.integers(0, 2**64).map(peer_id)
peer_tuples = st.lists(peer_ids, max_size=12).map(tuple)
message_ids = st.binary(min_size=1, max_size=60)
topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
ttls = st.integers(0, LIMITS.max_ttl)
hops = st.integers(1, LIMITS.max_hops)
sources = st.binary(min_size=8, max_size=8)
source_tuples = st.lists(sources, max_size=5).map(tuple)
rounds = st.integers(0, 2**14 - 1)
proofs = st.binary(min_size=8, max_size=8)
costs = st.integers(0, 2**32 - 1).map(lambda microseconds: microseconds / 1e6)
roots = st.builds(m.TreeRoot, sources, rounds, costs, proofs)
masks = st.integers(0, (1 << LIMITS.max_pieces) - 1)


@st.composite
def preambles(draw: st.DrawFn) -> pm.Preamble:
    author, piece_size = draw(peer_ids), draw(st.integers(SMALLEST_PIECE, LARGEST_PIECE))
    size = draw(st.integers(1, min(piece_size * pm.MAX_PIECES, MAX_SIZE)))
    small = st.binary(max_size=64)
    # Beside a peer id that holds one, a key is dropped.
    key = draw(small) if author[0] else b""
    envelope = Authorship(author, draw(small.filter(bool)), key, draw(small))
    root = draw(st.binary(min_size=32, max_size=32))
    return pm.Preamble(draw(message_ids), source_id(author), size, piece_size, root, envelope)


piece_messages: st.SearchStrategy[pm.PieceMessage] = st.one_of(
    st.builds(
        lambda id, root, index, data, proof: pm.Piece(
            id, root, index, data, tuple(proof), len(data)
        ),
        message_ids,
        st.binary(min_size=32, max_size=32),
        st.integers(0, pm.MAX_PIECES - 1),
        st.binary(min_size=1, max_size=100),
        st.lists(st.binary(min_size=32, max_size=32), max_size=9),
    ),
    st.builds(pm.PieceAnnounce, preambles(), masks, hops),
    st.builds(
        pm.PieceOffer,
        st.lists(st.builds(pm.TreeOffer, sources, st.integers(0, 2**32 - 1)), max_size=5).map(
            tuple
        ),
        st.booleans(),
    ),
    st.builds(
        pm.PieceGraft,
        st.lists(st.builds(pm.PieceWant, message_ids, masks), max_size=5).map(tuple),
        st.none() | sources,
    ),
    st.builds(pm.PiecePrune, sources, peer_tuples),
)

control_messages = st.one_of(
    piece_messages,
    st.builds(m.GetNodes, st.integers(0, 2**32 - 1)),
    st.builds(m.Nodes, peer_tuples, ttls),
    st.just(m.GetTopics()),
    st.builds(m.Topics, st.lists(topics, max_size=5).map(tuple)),
    st.builds(m.Join, peer_ids, ttls),
    st.builds(m.ForwardJoin, peer_ids, ttls),
    st.integers(0, LIMITS.max_links).flatmap(
        lambda links: st.builds(
            m.Neighbor,
            st.sampled_from(m.NeighborRole),
            st.just(links),
            st.sampled_from(m.LinkKind),
            peer_tuples,
            st.integers(0, links),
            st.booleans(),
        )
    ),
    st.builds(m.Disconnect, st.booleans()),
    st.builds(m.Leave, peer_ids, ttls, st.binary(min_size=1, max_size=200)),
    st.builds(m.Shuffle, peer_ids, ttls, st.integers(0, 2**32 - 1), peer_tuples),
    st.builds(m.ShuffleReply, peer_tuples),
    st.builds(m.IHave, st.lists(st.builds(m.MessageSummary, message_ids, hops)).map(tuple)),
    st.builds(m.Prune, source_tuples, source_tuples),
    st.builds(m.Graft, st.lists(message_ids).map(tuple), source_tuples, source_tuples),
    st.builds(
        m.Root,
        st.lists(roots, max_size=5).map(tuple),
        st.lists(st.builds(m.RootRequest, sources, rounds), max_size=5).map(tuple),
    ),
)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    topic = draw(topics)
    messages: list[m.Message] = draw(st.lists(control_messages, max_size=6))
    if draw(st.booleans()):
        author = source_id(peer_id(2))
        gossip = m.Gossip(
            draw(message_ids),
            draw(hops),
            payload(topic, draw(st.binary())),
            source=author,
            tree=draw(st.none() | st.just(author) | sources),
        )
        messages.insert(draw(st.integers(0, len(messages))), gossip)
    return Frame(topic, draw(st.integers(1, 2**64 - 1)), tuple(messages))
