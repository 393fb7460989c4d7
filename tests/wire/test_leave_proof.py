"""Nobody can make others forget a peer but that peer itself (E14)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from libp2p.crypto.keys import KeyPair
from libp2p.peer.envelope import Envelope, make_unsigned
from multiaddr import Multiaddr

from episub_router.pb import episub_pb2 as pb
from episub_router.wire import WireLimits
from episub_router.wire.leave_proof import leave_seq, sign_leave, verify_leave
from tests.wire.keys import ALICE, BOB, OF_EACH_KIND, id_of, rsa_keys, sealed

SEQ = 1_790_000_000_000_000_000


def envelope_of(
    keys: KeyPair,
    payload: bytes,
    domain: str = "episub-leave",
    payload_type: bytes = b"/episub/leave",
) -> bytes:
    signature = keys.private_key.sign(make_unsigned(domain, payload_type, payload))
    return Envelope(keys.public_key, payload_type, payload, signature).marshal_envelope()


@pytest.mark.parametrize("kind", OF_EACH_KIND)
def test_a_proof_holds_for_its_source_and_topic_alone(kind: str) -> None:
    keys = OF_EACH_KIND[kind]()
    proof = sign_leave(keys.private_key, "blocks", SEQ)
    assert verify_leave(id_of(keys), "blocks", proof)
    assert not verify_leave(id_of(keys), "block", proof)
    assert not verify_leave(id_of(keys), "", proof)
    assert not verify_leave(id_of(BOB), "blocks", proof)
    assert leave_seq(proof) == SEQ


def test_the_longest_topic_and_the_largest_key_fit_the_wire() -> None:
    topic = "x" * WireLimits().max_topic_bytes
    # RSA-4096 has 256 bytes more than RSA-2048 in key and signature each, and longer prefixes.
    largest = len(sign_leave(rsa_keys().private_key, topic, SEQ)) + 512 + 8
    assert largest <= WireLimits().max_proof_bytes


def test_two_leaves_can_be_told_apart() -> None:
    first, second = (sign_leave(ALICE.private_key, "t", SEQ + n) for n in (0, 1))
    assert leave_seq(first) != leave_seq(second)


def test_one_changed_bit_anywhere_is_refused() -> None:
    proof = sign_leave(ALICE.private_key, "t", SEQ)
    for bit in range(8 * len(proof)):
        changed = bytearray(proof)
        changed[bit // 8] ^= 1 << bit % 8
        assert not verify_leave(id_of(ALICE), "t", bytes(changed))


RECORD = pb.LeaveRecord(topic="t", seq=SEQ).SerializeToString()
OTHERS = {
    "empty": b"",
    "no seq": envelope_of(ALICE, pb.LeaveRecord(topic="t").SerializeToString()),
    "no topic": envelope_of(ALICE, pb.LeaveRecord(seq=SEQ).SerializeToString()),
    "topic is no text": envelope_of(ALICE, b"\x0a\x02\xff\xfe\x10\x01"),
    "no record": envelope_of(ALICE, b"garbage"),
    "another domain": envelope_of(ALICE, RECORD, domain="x"),
    "another payload type": envelope_of(ALICE, RECORD, payload_type=b"x"),
    "a peer record": sealed(ALICE, Multiaddr("/ip4/10.0.0.1/tcp/1"), seq=SEQ),
}


@pytest.mark.parametrize("proof", OTHERS.values(), ids=OTHERS)
def test_other_things_that_the_source_signed_are_refused(proof: bytes) -> None:
    assert not verify_leave(id_of(ALICE), "t", proof)


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_are_refused(proof: bytes, source: bytes) -> None:
    assert not verify_leave(source, "t", proof)
    assert not verify_leave(id_of(ALICE), "t", proof)


@given(st.binary(max_size=100), st.binary(max_size=70), st.integers(0, 5))
def test_any_key_and_signature_are_refused(key: bytes, signature: bytes, kind: int) -> None:
    public_key = bytes([0x08, kind, 0x12, len(key)]) + key
    proof = b"\x0a%c" % len(public_key) + public_key + b"\x12\x0d/episub/leave"
    proof += b"\x1a%c" % len(RECORD) + RECORD + b"\x2a%c" % len(signature) + signature
    assert leave_seq(proof) == SEQ
    assert not verify_leave(id_of(ALICE), "t", proof)
