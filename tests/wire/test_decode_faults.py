"""Whatever is wrong inside a frame is dropped and named; the rest of the frame is used."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import pytest
from google.protobuf.message import Message
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import messages as m
from episub_router.protocol import piece_messages as pm
from episub_router.protocol.pieces.cutting import LARGEST_PIECE
from episub_router.wire import Decoded, WireError, WireFault, WireLimits, decode_frame
from tests.wire.strategies import field, payload, peer_id, rpc_with, varint

P1, P2, P3 = peer_id(1), peer_id(2), peer_id(3)
BEFORE, AFTER = m.Prune(), m.Graft((b"id",))


def info(peer: bytes, record: bytes | None = None) -> pb.PeerInfo:
    return pb.PeerInfo(peerID=peer, signedPeerRecord=record)


def infos(*peers: bytes) -> list[pb.PeerInfo]:
    return [info(peer) for peer in peers]


def line(id: bytes, hops: int = 1) -> pb.MessageSummary:
    return pb.MessageSummary(id=id, hops=hops)


Sent: TypeAlias = Message | bytes
FIELDS = {field.message_type: field.name for field in pb.Control.DESCRIPTOR.fields}
"""The fields of Control, by what they hold."""


def decode(*messages: Sent, limits: WireLimits | None = None) -> Decoded:
    """Decodes a frame with `messages` between two good ones."""
    body = pb.EpisubFrame(topic="t", seq=1).SerializeToString()
    for message in (pb.Prune(), *messages, pb.Graft(ids=[b"id"])):
        control: Any = message
        if isinstance(message, Message) and not isinstance(message, pb.Control):
            control = pb.Control(**{FIELDS[message.DESCRIPTOR]: message})
        raw = message if isinstance(message, bytes) else control.SerializeToString()
        body += b"\x22" + varint(len(raw)) + raw
    result = decode_frame(rpc_with(body), limits or WireLimits())
    assert result is not None
    return result


GOOD_PREAMBLE = pb.Preamble(
    id=b"i", author=P1, seqno=b"s", size=50_000, piece_size=8192, root=b"r" * 32
)


def announced(**fields: Any) -> pb.PieceAnnounce:
    """An announcement whose preamble has `fields` in place of good ones."""
    preamble = pb.Preamble()
    preamble.CopyFrom(GOOD_PREAMBLE)
    preamble.MergeFrom(pb.Preamble(**fields))
    return pb.PieceAnnounce(preamble=preamble, hops=1)


def good_piece(**fields: Any) -> pb.Piece:
    """A piece with `fields` in place of good ones."""
    return pb.Piece(**{"id": b"i", "root": bytes(32), "index": 0, "data": b"d", **fields})


F = WireFault
Q = pb.Neighbor
NEAR = {"role": Q.LIST, "kind": Q.NEAR}
BAD_MESSAGES = [
    ("no message", pb.Control(), F.UNKNOWN_MESSAGE),
    ("a message of a later version", b"\xfa\x01\x00", F.UNKNOWN_MESSAGE),
    ("join without a peer", pb.Join(), F.BAD_PEER_ID),
    ("join ttl", pb.Join(peer=info(P1), ttl=17), F.TTL_RANGE),
    ("forward join ttl", pb.ForwardJoin(peer=info(P1), ttl=2**32 - 1), F.TTL_RANGE),
    ("nodes ttl", pb.Nodes(ttl=17), F.TTL_RANGE),
    ("shuffle ttl", pb.Shuffle(peer=info(P1), ttl=17), F.TTL_RANGE),
    ("shuffle origin", pb.Shuffle(peer=info(b"\x00"), peers=infos(P1)), F.BAD_PEER_ID),
    ("no role", Q(kind=Q.NEAR, peers=[info(b""), info(P1, b"record")]), F.UNKNOWN_ENUM),
    ("no kind", Q(role=Q.QUERY), F.UNKNOWN_ENUM),
    ("a role of a later version", b"\x3a\x04\x08\x04\x18\x00", F.UNKNOWN_ENUM),
    ("a kind of a later version", b"\x3a\x04\x08\x00\x18\x02", F.UNKNOWN_ENUM),
    ("links", Q(**NEAR, links=256), F.LINKS_RANGE),
    ("more random links than links", Q(**NEAR, links=3, random_links=4), F.LINKS_RANGE),
    ("leave source", pb.Leave(source=b"\x12\x20", ttl=1, proof=b"p"), F.BAD_PEER_ID),
    ("leave ttl", pb.Leave(source=P1, ttl=17, proof=b"p"), F.TTL_RANGE),
    ("leave without proof", pb.Leave(source=P1, ttl=1), F.BAD_PROOF),
    ("leave with a huge proof", pb.Leave(source=P1, ttl=1, proof=b"p" * 2561), F.BAD_PROOF),
    ("piece with no id", good_piece(id=b""), F.BAD_MESSAGE_ID),
    ("piece with no data", good_piece(data=b""), F.BAD_PIECE),
    ("piece with a byte too many", good_piece(data=b"d" * (LARGEST_PIECE + 1)), F.BAD_PIECE),
    ("piece with an index too high", good_piece(index=512), F.BAD_PIECE),
    ("piece with half a root", good_piece(root=bytes(16)), F.BAD_PIECE),
    ("piece with half a hash", good_piece(proof=b"h" * 48), F.BAD_PIECE),
    ("piece with ten hashes", good_piece(proof=b"h" * 320), F.BAD_PIECE),
    ("preamble with nothing", pb.PieceAnnounce(hops=1), F.BAD_MESSAGE_ID),
    ("preamble with no author", announced(author=b""), F.BAD_PEER_ID),
    ("preamble with no seqno", announced(seqno=b""), F.BAD_PREAMBLE),
    ("preamble with a long seqno", announced(seqno=b"s" * 65), F.BAD_PREAMBLE),
    ("preamble with a long key", announced(key=b"k" * 641), F.BAD_PREAMBLE),
    ("preamble with a long signature", announced(signature=b"s" * 513), F.BAD_PREAMBLE),
    ("preamble with no size", announced(size=0), F.BAD_PREAMBLE),
    ("preamble with no piece size", announced(piece_size=0), F.BAD_PREAMBLE),
    ("preamble with small pieces", announced(piece_size=8191), F.BAD_PREAMBLE),
    ("preamble with large pieces", announced(piece_size=LARGEST_PIECE + 1), F.BAD_PREAMBLE),
    ("preamble with too many pieces", announced(size=8192 * 512 + 1), F.BAD_PREAMBLE),
    ("preamble with half a root", announced(root=b"r" * 16), F.BAD_PREAMBLE),
    ("announce without hops", pb.PieceAnnounce(preamble=GOOD_PREAMBLE), F.HOPS_RANGE),
    (
        "announce with a long mask",
        pb.PieceAnnounce(preamble=GOOD_PREAMBLE, hops=1, have=b"m" * 65),
        F.BAD_MASK,
    ),
    ("piece graft source", pb.PieceGraft(source=b"7 bytes"), F.BAD_SOURCE),
    ("piece prune source", pb.PiecePrune(), F.BAD_SOURCE),
]


@pytest.mark.parametrize(("_", "message", "fault"), BAD_MESSAGES, ids=[n for n, *_ in BAD_MESSAGES])
def test_a_bad_message_is_dropped_alone(_: str, message: Sent, fault: WireFault) -> None:
    result = decode(message)
    assert result.messages == (BEFORE, AFTER)
    assert result.faults == (fault,)
    assert result.records == ()


S1, S2 = b"source 1", b"source 2"
PROOF = bytes(range(8))

PARTLY_BAD = [
    (
        "piece offer",
        pb.PieceOffer(offers=[pb.TreeOffer(source=b"7 bytes"), pb.TreeOffer(source=S1, rank=3)]),
        pm.PieceOffer((pm.TreeOffer(S1, 3),)),
        {F.BAD_SOURCE: 1},
    ),
    (
        "piece graft",
        pb.PieceGraft(
            wants=[
                pb.PieceWant(missing=b"\x01"),
                pb.PieceWant(id=b"i", missing=b"m" * 65),
                pb.PieceWant(id=b"j", missing=b"\x02"),
            ]
        ),
        pm.PieceGraft((pm.PieceWant(b"j", 2),)),
        {F.BAD_MESSAGE_ID: 1, F.BAD_MASK: 1},
    ),
    (
        "piece prune",
        pb.PiecePrune(source=S1, instead=[P1, b"", P2]),
        pm.PiecePrune(S1, (P1, P2)),
        {F.BAD_PEER_ID: 1},
    ),
    (
        "prune",
        pb.Prune(sources=[b"", S1, b"7 bytes"], standby=[b"9 bytes !"]),
        m.Prune((S1,)),
        {F.BAD_SOURCE: 3},
    ),
    (
        "graft",
        pb.Graft(ids=[b""], sources=[S1[:7]], standby=[S1, S2[1:]]),
        m.Graft((), (), (S1,)),
        {F.BAD_MESSAGE_ID: 1, F.BAD_SOURCE: 2},
    ),
    (
        "too many sources",
        pb.Graft(sources=[S1] * 101, standby=[S2] * 200),
        m.Graft((), (S1,) * 100, (S2,) * 100),
        {F.TOO_MANY_SOURCES: 2},
    ),
    (
        "root",
        pb.Root(
            roots=[
                pb.TreeRoot(source=S1, round=2**14 + 3, cost=5, proof=PROOF),
                pb.TreeRoot(source=S2, round=3, proof=PROOF[1:]),
                pb.TreeRoot(source=S2, round=3),
                pb.TreeRoot(round=3, proof=PROOF),
            ],
            requests=[pb.RootRequest(round=1), pb.RootRequest(source=S2)],
        ),
        m.Root((m.TreeRoot(S1, 3, 0.000005, PROOF),), (m.RootRequest(S2, 0),)),
        {F.BAD_PROOF: 2, F.BAD_SOURCE: 2},
    ),
    (
        "too many roots",
        pb.Root(
            roots=[pb.TreeRoot(source=S1, proof=PROOF)] * 101,
            requests=[pb.RootRequest(source=S2)] * 500,
        ),
        m.Root((m.TreeRoot(S1, 0, 0.0, PROOF),) * 100, (m.RootRequest(S2, 0),) * 100),
        {F.TOO_MANY_SOURCES: 2},
    ),
    (
        "peers",
        pb.ShuffleReply(peers=infos(P1, b"", P2, b"\x12\x20", P3)),
        m.ShuffleReply((P1, P2, P3)),
        {F.BAD_PEER_ID: 2},
    ),
    (
        "too many peers",
        pb.Nodes(peers=infos(*map(peer_id, range(70)))),
        m.Nodes(tuple(map(peer_id, range(64))), 0),
        {F.TOO_MANY_PEERS: 1},
    ),
    (
        "ihave",
        pb.IHave(summary=[line(b"i"), line(b""), line(b"j", 0), line(b"k", 65)]),
        m.IHave((m.MessageSummary(b"i", 1),)),
        {F.BAD_MESSAGE_ID: 1, F.HOPS_RANGE: 2},
    ),
    (
        "too many announced ids",
        pb.IHave(summary=[line(b"i")] * 101),
        m.IHave((m.MessageSummary(b"i", 1),) * 100),
        {F.TOO_MANY_IDS: 1},
    ),
    (
        "too many grafted ids",
        pb.Graft(ids=[b"i"] * 5000),
        m.Graft((b"i",) * 100),
        {F.TOO_MANY_IDS: 1},
    ),
    (
        "topics that are no text or empty",
        b"\x22\x09\x0a\x01a\x0a\x02\xff\xfe\x0a\x00",
        m.Topics(("a",)),
        {F.BAD_TOPIC: 2},
    ),
    (
        "topic too long",
        pb.Topics(topics=["x" * 1025, "ü" * 512]),
        m.Topics(("ü" * 512,)),
        {F.BAD_TOPIC: 1},
    ),
    (
        "too many topics",
        pb.Topics(topics=["x"] * 129),
        m.Topics(("x",) * 128),
        {F.TOO_MANY_TOPICS: 1},
    ),
    (
        "a huge record",
        pb.Join(peer=info(P1, b"r" * 4097), ttl=1),
        m.Join(P1, 1),
        {F.RECORD_TOO_LARGE: 1},
    ),
]


@pytest.mark.parametrize(
    ("_", "sent", "kept", "faults"), PARTLY_BAD, ids=[n for n, *_ in PARTLY_BAD]
)
def test_bad_entries_are_dropped_alone(
    _: str, sent: Sent, kept: m.Message, faults: dict[WireFault, int]
) -> None:
    result = decode(sent)
    assert result.messages == (BEFORE, kept, AFTER)
    assert Counter(result.faults) == faults
    assert result.records == ()


def test_records_are_bounded_per_frame_and_their_peers_are_kept() -> None:
    many = [info(peer_id(n), b"r") for n in range(20)]
    result = decode(*[pb.ShuffleReply(peers=many)] * 3)
    assert len(result.records) == 32
    assert result.faults == (F.TOO_MANY_RECORDS,)
    assert [len(reply.peers) for reply in result.messages[1:-1]] == [20, 20, 20]


def test_messages_are_bounded_per_frame() -> None:
    result = decode(*[pb.GetNodes()] * 100)
    assert result.messages == (BEFORE, *[m.GetNodes()] * 63)
    assert result.faults == (F.TOO_MANY_MESSAGES,)


def test_limits_can_be_set() -> None:
    result = decode(pb.Graft(ids=[b"a", b"b", b"c"]), limits=WireLimits(max_ids=2))
    assert result.messages == (BEFORE, m.Graft((b"a", b"b")), AFTER)


@pytest.mark.parametrize("length", range(16))
def test_short_ids_do_no_harm(length: int) -> None:
    """The first implementation of Episub cut ids to 16 bytes, and died of shorter ones."""
    id = b"i" * length
    result = decode(pb.IHave(summary=[line(id), line(b"good")]), pb.Graft(ids=[id, b"good"]))
    kept = (id, b"good") if id else (b"good",)
    announced = m.IHave(tuple(m.MessageSummary(id, 1) for id in kept))
    assert result.messages == (BEFORE, announced, m.Graft(kept), AFTER)
    assert result.faults == (() if id else (F.BAD_MESSAGE_ID, F.BAD_MESSAGE_ID))


def test_long_message_ids_are_dropped() -> None:
    result = decode(pb.Graft(ids=[b"i" * 256, b"i" * 257]))
    assert result.messages[1] == m.Graft((b"i" * 256,))
    assert result.faults == (F.BAD_MESSAGE_ID,)


@pytest.mark.parametrize(
    "peer",
    [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x2b" + b"k" * 43,
        b"\x00\x24" + b"k" * 35,
        b"\x12\x20" + b"k" * 31,
        b"\x12\x20" + b"k" * 33,
        b"\x12\x10" + b"k" * 16,
        b"\x13\x40" + b"k" * 64,
        b"\x11\x14" + b"k" * 20,
        b"QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",
        b"\x00" * 10_000,
    ],
)
def test_bytes_that_are_no_peer_id(peer: bytes) -> None:
    result = decode(pb.Join(peer=info(peer)))
    assert result.messages == (BEFORE, AFTER)
    assert result.faults == (F.BAD_PEER_ID,)


@pytest.mark.parametrize(
    ("hops", "payloads", "expected", "fault"),
    [
        (1, [payload("t")], 1, None),
        (64, [payload("t")], 64, None),
        (0, [payload("t")], None, F.HOPS_RANGE),
        (65, [payload("t")], None, F.HOPS_RANGE),
        (None, [payload("t")], None, F.HOPS_RANGE),
        (1, [], None, F.NO_PAYLOAD),
        (1, [payload("t"), payload("t")], None, F.SEVERAL_PAYLOADS),
        (1, [rpc_pb2.Message(topicIDs=["s", "t"])], 1, None),
        (1, [payload("u")], None, F.PAYLOAD_TOPIC),
        (1, [rpc_pb2.Message(topicIDs=["s", "u"])], None, F.PAYLOAD_TOPIC),
        (1, [rpc_pb2.Message()], None, F.PAYLOAD_TOPIC),
        (1, [rpc_pb2.Message.FromString(b"\x22\x02\xff\xfe")], None, F.PAYLOAD_TOPIC),
    ],
)
def test_gossip_headers(
    hops: int | None,
    payloads: list[rpc_pb2.Message],
    expected: int | None,
    fault: WireFault | None,
) -> None:
    frame = pb.EpisubFrame(
        topic="t", seq=1, gossip=pb.Gossip(hops=hops), control=[pb.Control(prune=pb.Prune())]
    )
    result = decode_frame(rpc_with(frame, *payloads))
    assert result is not None
    assert (result.hops, result.messages) == (expected, (m.Prune(),))
    assert result.faults == ((fault,) if fault else ())


def test_a_payload_without_a_header_has_no_hops() -> None:
    result = decode_frame(rpc_with(pb.EpisubFrame(topic="t", seq=1), payload("t")))
    assert result == Decoded("t", 1, (), None, (), ())


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "topic must be 1 to 1024 bytes of UTF-8"),
        (pb.EpisubFrame(seq=1), "topic"),
        (pb.EpisubFrame(topic="", seq=1), "topic"),
        (pb.EpisubFrame(topic="x" * 1025, seq=1), "topic"),
        (b"\x0a\x02\xff\xfe\x10\x01", "topic"),
        (pb.EpisubFrame(topic="t"), "sequence id"),
        (pb.EpisubFrame(topic="t", seq=0), "sequence id"),
        (b"\x0a", "can't be parsed"),
        (b"\x0a\x01t\x10\x01\x22\x05\x2a", "can't be parsed"),
    ],
)
def test_frames_of_which_nothing_can_be_used(frame: pb.EpisubFrame | bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        decode_frame(rpc_with(frame))


def test_a_field_of_another_wire_type_is_no_frame() -> None:
    raw = varint(pb.EpisubRpc.EPISUB_FIELD_NUMBER << 3) + b"\x05"
    assert decode_frame(rpc_pb2.RPC.FromString(raw)) is None


def test_a_field_given_twice_is_merged_as_protobuf_does() -> None:
    first = pb.EpisubFrame(topic="t", control=[pb.Control(prune=pb.Prune())])
    second = pb.EpisubFrame(seq=2, control=[pb.Control(get_nodes=pb.GetNodes())])
    raw = field(first.SerializeToString()) + field(second.SerializeToString())
    result = decode_frame(rpc_pb2.RPC.FromString(raw))
    assert result is not None
    assert (result.seq, result.messages) == (2, (m.Prune(), m.GetNodes()))
