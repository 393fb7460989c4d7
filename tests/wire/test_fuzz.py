"""No bytes from a remote peer make the decoder raise anything but WireError, or grow."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol import messages as m
from episub_router.protocol import piece_messages as pm
from episub_router.protocol.pieces.cutting import is_sound
from episub_router.wire import Decoded, Frame, WireError, WireLimits, decode_frame, encode_frame
from tests.wire.strategies import damaged, field, payload, peer_id, record_of, varint
from tests.wire.test_round_trip import ONE_OF_EACH

ROUNDS = 100_000
LIMITS = WireLimits(
    max_messages=8,
    max_peers=6,
    max_records=4,
    max_ids=5,
    max_sources=4,
    max_topics=3,
    max_record_bytes=50,
    max_wants=5,
)


def check_bounds(result: Decoded) -> None:
    assert len(result.messages) <= LIMITS.max_messages
    assert len(result.records) <= LIMITS.max_records
    # Per message: every entry of its lists, each list's excess, and the message; per frame: excess
    # messages, excess records and the header.
    ids_and_sources = LIMITS.max_ids + 2 * LIMITS.max_sources
    entries = max(ids_and_sources, LIMITS.max_topics, 2 * (1 + LIMITS.max_peers))
    assert len(result.faults) <= LIMITS.max_messages * (entries + 4) + 3
    for message in result.messages:
        for peers in (getattr(message, "peers", ()), (getattr(message, "peer", peer_id(0)),)):
            assert len(peers) <= LIMITS.max_peers
            assert all(isinstance(peer, bytes) and 3 <= len(peer) <= 44 for peer in peers)
        assert 0 <= getattr(message, "ttl", 0) <= LIMITS.max_ttl
        assert 0 <= getattr(message, "links", 0) <= LIMITS.max_links
        if isinstance(message, m.IHave):
            assert len(message.summary) <= LIMITS.max_ids
            assert all(1 <= line.hops <= LIMITS.max_hops for line in message.summary)
        if isinstance(message, m.Graft):
            assert len(message.ids) <= LIMITS.max_ids
        if isinstance(message, m.Graft | m.Prune):
            for sources in (message.sources, message.standby):
                assert len(sources) <= LIMITS.max_sources
                assert all(len(source) == 8 for source in sources)
        if isinstance(message, m.Root):
            assert max(len(message.roots), len(message.requests)) <= LIMITS.max_sources
            assert all(len(line.source) == 8 for line in (*message.roots, *message.requests))
            assert all(len(root.proof) == 8 for root in message.roots)
        if isinstance(message, pm.Piece):
            assert 1 <= len(message.data) == message.size <= LIMITS.max_piece_bytes
            assert len(message.proof) <= 9
        if isinstance(message, pm.PieceAnnounce):
            assert is_sound(message.preamble)
            assert message.have.bit_length() <= LIMITS.max_pieces
        if isinstance(message, pm.PieceOffer):
            assert len(message.offers) <= LIMITS.max_sources
        if isinstance(message, pm.PieceGraft):
            assert len(message.wants) <= LIMITS.max_wants
    assert all(len(record) <= LIMITS.max_record_bytes for _, record in result.records)
    assert result.tree is None or len(result.tree) == 8
    assert result.hops is None or 1 <= result.hops <= LIMITS.max_hops


def survivors(inputs: Iterable[bytes]) -> tuple[int, int]:
    """How many of `inputs`, serialized RPCs, gave a frame, and how many of these had faults."""
    frames = faulty = 0
    for raw in inputs:
        try:
            rpc = rpc_pb2.RPC.FromString(raw)
        except DecodeError:
            continue  # Pubsub itself refuses it.
        try:
            result = decode_frame(rpc, LIMITS)
        except WireError:
            continue
        if result is not None:
            check_bounds(result)
            frames += 1
            faulty += bool(result.faults)
    return frames, faulty


def test_random_bytes_as_frames() -> None:
    rng = random.Random(1)

    def body() -> bytes:
        # Half of them start like a frame, to get past the topic and the sequence id.
        head = b"\x0a\x01t\x10\x01" if rng.random() < 0.5 else b""
        return field(head + rng.randbytes(rng.randrange(64)))

    frames, _ = survivors(body() for _ in range(ROUNDS))
    assert frames > 1000


@pytest.mark.slow
def test_mutated_frames() -> None:
    rng = random.Random(2)
    controls = [message for message in ONE_OF_EACH if not isinstance(message, m.Gossip)]
    frames = [
        Frame("t", 2**40, (m.Prune(), message, m.Gossip(b"i", 3, payload("t"))))
        for message in controls
    ]
    rpcs = [encode_frame(frame, record_of).SerializeToString() for frame in frames]
    # The same with the damage kept inside one control message, so that the rest parses.
    messages = [pb.EpisubRpc.FromString(rpc).episub.control[1].SerializeToString() for rpc in rpcs]

    def changed() -> bytes:
        if rng.random() < 0.5:
            return damaged(rng, rng.choice(rpcs))
        raw = damaged(rng, rng.choice(messages))
        return field(b"\x0a\x01t\x10\x01\x22" + varint(len(raw)) + raw)

    used, faulty = survivors(changed() for _ in range(ROUNDS))
    assert used > 20_000
    assert faulty > 2000


@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    survivors([field(body), field(b"\x0a\x01t\x10\x01" + body), body])


def test_a_megabyte_of_empty_parts() -> None:
    for part in (b"\x22\x00", b"\x22\x02\x6a\x00", b"\x22\x04\x62\x02\x0a\x00", b"\x78\x00"):
        body = b"\x0a\x01t\x10\x01" + part * (2**20 // len(part) - 10)
        assert survivors([field(body)])[0] == 1
    assert survivors([b"\x78\x00" * 2**19]) == (0, 0)
