"""What one node encodes is what another decodes (E42)."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import messages as m
from episub_router.protocol import piece_messages as pm
from episub_router.protocol.hyparview import LEAVE_TTL
from episub_router.protocol.params import EpisubParams, MembershipParams
from episub_router.wire import (
    Authorship,
    Decoded,
    Frame,
    WireLimits,
    check_params,
    decode_frame,
    encode_frame,
    source_id,
)
from tests.wire.strategies import frames, payload, peer_id, record_of

PEERS = (peer_id(1), peer_id(2), peer_id(4))

SOURCES = (b"\x00" * 8, b"source 1")

PREAMBLE = pm.Preamble(
    b"i", source_id(PEERS[0]), 2**24, 32768, b"r" * 32,
    Authorship(PEERS[0], b"\x00" * 8, b"key", b"signature"),
)  # fmt: skip

ONE_OF_EACH: tuple[m.Message, ...] = (
    m.GetNodes(),
    m.GetNodes(4),
    m.Nodes(PEERS, 6),
    m.GetTopics(),
    m.Topics(("blocks", "Blöcke")),
    m.Join(PEERS[0], 0),
    m.Join(PEERS[0], 16),
    m.ForwardJoin(PEERS[1], 3),
    m.Neighbor(m.NeighborRole.REQUEST, 0),
    m.Neighbor(m.NeighborRole.QUERY, 255, m.LinkKind.NEAR),
    m.Neighbor(m.NeighborRole.LIST, 7, m.LinkKind.NEAR, PEERS),
    m.Neighbor(m.NeighborRole.ACCEPT, 1),
    m.Neighbor(m.NeighborRole.QUERY, 5, numbers_only=True),
    m.Disconnect(alive=False),
    m.Leave(PEERS[0], 3, b"proof"),
    m.Shuffle(PEERS[0], 6, 7),
    m.Shuffle(PEERS[0], 6, peers=PEERS),
    m.ShuffleReply(()),
    m.Gossip(b"id", 3, payload("blocks")),
    m.IHave((m.MessageSummary(b"i", 1), m.MessageSummary(b"j" * 47, 64))),
    m.Prune(),
    m.Prune(SOURCES, SOURCES[:1]),
    m.Graft(),
    m.Graft((b"i", b"j")),
    m.Graft((), SOURCES[:1]),
    m.Graft((b"i",), (), SOURCES),
    m.Root(),
    m.Root(
        (
            m.TreeRoot(SOURCES[0], 0, 0.0, bytes(8)),
            m.TreeRoot(SOURCES[1], 2**14 - 1, 1.234567, b"8 bytes."),
        ),
        (m.RootRequest(SOURCES[1], 2**14 - 1),),
    ),
    pm.PieceOffer(),
    pm.PieceOffer((pm.TreeOffer(SOURCES[0], 0), pm.TreeOffer(SOURCES[1], 2**32 - 1)), True),
    pm.PieceAnnounce(PREAMBLE, 0, 1),
    pm.PieceAnnounce(replace(PREAMBLE, envelope=Authorship(PEERS[0], b"s")), 1 << 511, 64),
    pm.PieceGraft(),
    pm.PieceGraft((pm.PieceWant(b"i", 0), pm.PieceWant(b"j", 0b101)), SOURCES[0]),
    pm.PiecePrune(SOURCES[0]),
    pm.PiecePrune(SOURCES[0], PEERS),
    pm.Piece(b"i", b"r" * 32, 0, b"a", (), 1),
    pm.Piece(b"i", b"r" * 32, 511, b"d" * 63488, (b"h" * 32,) * 9, 63488),
)


def over_the_wire(rpc: rpc_pb2.RPC) -> rpc_pb2.RPC:
    return rpc_pb2.RPC.FromString(rpc.SerializeToString())


def decoded(frame: Frame) -> tuple[Decoded, rpc_pb2.RPC]:
    rpc = over_the_wire(encode_frame(frame, record_of))
    result = decode_frame(rpc)
    assert result is not None
    return result, rpc


def test_every_message_of_the_vocabulary() -> None:
    assert {type(message) for message in ONE_OF_EACH} == set(
        get_args(m.MembershipMessage) + get_args(m.BroadcastMessage) + get_args(pm.PieceMessage)
    )
    for message in ONE_OF_EACH:
        result, rpc = decoded(Frame("blocks", 7, (message,)))
        assert result.faults == ()
        if isinstance(message, m.Gossip):
            assert (result.messages, result.hops, result.tree) == ((), message.hops, None)
            assert list(rpc.publish) == [message.payload]
        else:
            assert (result.messages, result.hops) == ((message,), None)


@given(frames())
def test_any_frame(frame: Frame) -> None:
    gossip = [message for message in frame.messages if isinstance(message, m.Gossip)]
    control = tuple(message for message in frame.messages if not isinstance(message, m.Gossip))

    result, rpc = decoded(frame)

    assert (result.topic, result.seq) == (frame.topic, frame.seq)
    assert result.messages == control
    assert result.hops == (gossip[0].hops if gossip else None)
    assert result.tree == (gossip[0].tree if gossip else None)
    assert list(rpc.publish) == [message.payload for message in gossip]
    assert result.faults == ()
    assert all(envelope == record_of(peer) for peer, envelope in result.records)
    assert rpc.HasField("control"), "Pubsub hides an RPC without control from its router"


def test_the_author_s_own_tree_takes_two_bytes() -> None:
    """A payload mostly goes along the tree of its author, which it names already."""
    author = source_id(peer_id(2))

    def encoded(along: bytes | None) -> rpc_pb2.RPC:
        gossip = m.Gossip(b"id", 3, payload("t"), 0, author, along)
        return over_the_wire(encode_frame(Frame("t", 1, (gossip,)), record_of))

    plain, own, other = encoded(None), encoded(author), encoded(SOURCES[1])

    assert own.ByteSize() - plain.ByteSize() == 2
    assert other.ByteSize() - plain.ByteSize() == 10
    for rpc, along in ((plain, None), (own, author), (other, SOURCES[1])):
        result = decode_frame(rpc)
        assert result is not None
        assert (result.tree, result.faults) == (along, ())


def test_costs_are_microseconds_that_fit_the_field() -> None:
    roots = tuple(m.TreeRoot(SOURCES[0], 1, cost, bytes(8)) for cost in (0.0000004, 0.1, 1e9))
    result, _ = decoded(Frame("t", 1, (m.Root(roots),)))
    (root,) = result.messages
    assert isinstance(root, m.Root)
    assert [line.cost for line in root.roots] == [0.0, 0.1, (2**32 - 1) / 1e6]


def test_records_ride_beside_their_peers() -> None:
    shuffle = m.Shuffle(peer_id(1), 6, peers=(peer_id(2), peer_id(3)))
    held = {peer_id(1): b"one", peer_id(2): b"two"}

    def records(sent: m.Message) -> tuple[tuple[bytes, bytes], ...]:
        result = decode_frame(over_the_wire(encode_frame(Frame("t", 1, (sent,)), held.get)))
        assert result is not None
        return result.records

    assert records(shuffle) == ((peer_id(1), b"one"), (peer_id(2), b"two"))


def test_no_more_records_are_sent_than_a_receiver_takes() -> None:
    peers = tuple(peer_id(n) for n in range(60))
    result, _ = decoded(Frame("t", 1, (m.ShuffleReply(peers),)))
    assert result.messages == (m.ShuffleReply(peers),)
    assert len(result.records) == 32
    assert result.faults == ()


def test_a_stock_rpc_has_no_frame() -> None:
    rpc = rpc_pb2.RPC(publish=[payload("t")], senderRecord=b"record")
    rpc.subscriptions.add(subscribe=True, topicid="t")
    rpc.control.graft.add(topicID="t")
    assert decode_frame(over_the_wire(rpc)) is None
    assert decode_frame(rpc_pb2.RPC()) is None


async def test_the_frame_survives_the_send_queue() -> None:
    frame = Frame("t", 1, (m.Prune(), m.Gossip(b"id", 2, payload("t"))))
    queue = RpcQueue()
    assert queue.push(encode_frame(frame, record_of), priority=True)

    rpc = await queue.pop()

    assert rpc is not None
    result = decode_frame(over_the_wire(rpc))
    assert result is not None
    assert (result.messages, result.hops) == ((m.Prune(),), 2)


def test_the_field_number_is_experimental_and_free() -> None:
    number = pb.EpisubRpc.EPISUB_FIELD_NUMBER
    assert 0x200000 < number < 2**25, "a tag of four bytes"
    assert number not in rpc_pb2.RPC.DESCRIPTOR.fields_by_number


def test_peer_infos_are_those_of_gossipsubs_peer_exchange() -> None:
    theirs, ours = rpc_pb2.PeerInfo.DESCRIPTOR.fields, pb.PeerInfo.DESCRIPTOR.fields
    assert [(f.name, f.number, f.type) for f in ours] == [
        (f.name, f.number, f.type) for f in theirs
    ]


@pytest.mark.parametrize(
    ("frame", "error", "text"),
    [
        (Frame("", 1, ()), ValueError, "topic"),
        (Frame("ü" * 513, 1, ()), ValueError, "topic must take 1 to 1024 bytes"),
        (Frame("t", 0, ()), ValueError, "sequence id"),
        (Frame("t", 2**64, ()), ValueError, "sequence id"),
        (Frame("t", 1, (m.Prune(),) * 65), ValueError, "at most 64"),
        (Frame("t", 1, (m.Gossip(b"i", 1, payload("t")),) * 2), ValueError, "one Gossip"),
        (Frame("t", 1, (m.Gossip(b"i", 1, b"raw"),)), TypeError, "pubsub Message"),
        (Frame("t", 1, (m.Join(7, 1),)), TypeError, "ids on the wire are bytes"),
        (Frame("t", 1, (m.Graft(("i",)),)), TypeError, "ids on the wire are bytes"),
        (Frame("t", 1, (m.Graft((), (b"7 bytes",)),)), TypeError, "sources on the wire are 8"),
        (Frame("t", 1, (m.Prune((7,)),)), TypeError, "sources on the wire are 8"),
        (Frame("t", 1, (pm.PiecePrune(7),)), TypeError, "sources on the wire are 8"),
        (
            Frame("t", 1, (pm.Piece(7, b"r" * 32, 0, b"d", (), 1),)),
            TypeError,
            "ids on the wire are bytes",
        ),
        (
            Frame("t", 1, (pm.PieceAnnounce(replace(PREAMBLE, envelope=None), 0, 1),)),
            TypeError,
            "must be an Authorship",
        ),
        (
            Frame("t", 1, (m.Gossip(b"i", 1, payload("t"), tree=7),)),
            TypeError,
            "sources on the wire are 8",
        ),
    ],
)
def test_frames_that_nobody_could_use_are_refused(
    frame: Frame, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        encode_frame(frame, record_of)


def test_the_cores_defaults_fit_the_wire() -> None:
    check_params(EpisubParams())
    limits = WireLimits()
    assert limits.max_ttl >= LEAVE_TTL
    assert limits.max_peers >= m.MAX_NODES


@pytest.mark.parametrize(
    ("params", "name"),
    [
        (EpisubParams(membership=MembershipParams(join_ttl=17)), "join_ttl"),
        (EpisubParams(membership=MembershipParams(active_size=60)), "active_bound"),
    ],
)
def test_params_beyond_the_wire_are_refused(params: EpisubParams, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be at most \d+"):
        check_params(params)


def test_limits_must_be_positive() -> None:
    with pytest.raises(ValueError, match="max_ids must be at least 1: 0"):
        WireLimits(max_ids=0)
