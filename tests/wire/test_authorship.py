"""A preamble holds for the author that signed it, for its topic, and for what it says alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from Crypto.PublicKey import RSA
from Crypto.Util.asn1 import DerSequence
from libp2p.crypto.ed25519 import Ed25519PrivateKey, Ed25519PublicKey, create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.crypto.rsa import RSAPublicKey
from libp2p.crypto.rsa import create_new_key_pair as create_rsa
from libp2p.crypto.secp256k1 import create_new_key_pair as create_secp256k1
from libp2p.crypto.serialization import deserialize_public_key
from libp2p.peer.id import ID
from libp2p.peer.pb import crypto_pb2

from episub_router.protocol.piece_messages import PieceAnnounce, Preamble
from episub_router.protocol.pieces.cutting import cut
from episub_router.wire import (
    Authorship,
    Frame,
    decode_frame,
    encode_frame,
    is_for_preambles,
    sign_preamble,
    source_id,
    verify_preamble,
)
from episub_router.wire.keys import is_affordable
from tests.wire import small_order
from tests.wire.keys import id_of, rsa_keys

SEQNO = b"\x00" * 7 + b"\x01"


def signed(keys: KeyPair) -> Preamble:
    author = id_of(keys)
    unsigned, _ = cut(author + SEQNO, source_id(author), b"data" * 5000)
    envelope = sign_preamble(keys.private_key, "t", unsigned, author, SEQNO)
    return replace(unsigned, envelope=envelope)


@pytest.mark.parametrize("create", [create_new_key_pair, create_secp256k1, create_rsa])
def test_an_author_is_believed(create: object) -> None:
    preamble = signed(create(2048) if create is create_rsa else create())  # type: ignore[operator]
    assert verify_preamble("t", preamble)
    assert not verify_preamble("u", preamble)


def with_key(preamble: Preamble, key: bytes) -> Preamble:
    assert isinstance(preamble.envelope, Authorship)
    return replace(preamble, envelope=replace(preamble.envelope, key=key))


LARGE_EXPONENT = (1 << 31) + 11
"""Which RSA keys may have, and Go's library refuses."""


@pytest.mark.parametrize(
    "keys",
    [lambda: create_rsa(1024), lambda: create_rsa(2048, LARGE_EXPONENT)],
    ids=["1,024 bits", "a large exponent"],
)
def test_a_key_that_others_do_not_take_signs_nothing(keys: Callable[[], KeyPair]) -> None:
    pair = keys()
    assert not is_for_preambles(pair.public_key)
    assert not verify_preamble("t", signed(pair))


def test_an_rsa_key_is_written_in_one_way() -> None:
    preamble = signed(rsa_keys())
    assert isinstance(preamble.envelope, Authorship)
    key = crypto_pb2.PublicKey.FromString(preamble.envelope.key)
    public = rsa_keys().public_key
    assert isinstance(public, RSAPublicKey)
    text = public.impl.export_key("PEM")
    for other in (
        crypto_pb2.PublicKey(Type=key.Type, Data=text).SerializeToString(),
        preamble.envelope.key[2:] + preamble.envelope.key[:2],  # Data, then Type.
        preamble.envelope.key + b"\x18\x00",
    ):
        assert ID.from_pubkey(deserialize_public_key(other)) == ID(preamble.envelope.author)
        assert not verify_preamble("t", with_key(preamble, other))
    assert verify_preamble("t", with_key(preamble, preamble.envelope.key))


def test_a_peer_id_that_holds_a_key_is_that_key_s_own() -> None:
    """Of a key of more than 42 bytes the peer id is a hash."""
    pair = rsa_keys()
    key = pair.public_key.serialize()
    inline = bytes([0, 0x80 | len(key) & 0x7F, len(key) >> 7]) + key  # The identity multihash.
    unsigned, _ = cut(inline + SEQNO, source_id(inline), b"data" * 5000)
    envelope = sign_preamble(pair.private_key, "t", unsigned, inline, SEQNO)
    assert ID(inline).extract_public_key() is not None
    assert not verify_preamble("t", replace(unsigned, envelope=envelope))


def test_what_was_changed_is_not() -> None:
    preamble, other = signed(create_new_key_pair()), signed(create_new_key_pair())
    envelope = preamble.envelope
    assert isinstance(envelope, Authorship)
    assert isinstance(other.envelope, Authorship)
    for changed in (
        replace(preamble, id=b"another"),
        replace(preamble, size=preamble.size + 1),
        replace(preamble, piece_size=preamble.piece_size * 2),
        replace(preamble, root=bytes(32)),
        replace(preamble, envelope=replace(envelope, seqno=b"another")),
        replace(preamble, envelope=replace(envelope, author=other.envelope.author)),
        replace(preamble, envelope=replace(envelope, signature=b"")),
        replace(preamble, envelope=replace(envelope, signature=b"s" * 64)),
        replace(preamble, envelope=replace(envelope, author=b"\x12\x20" + b"h" * 32, key=b"k")),
        replace(preamble, envelope=None),
    ):
        assert not verify_preamble("t", changed)


def test_a_key_that_is_not_the_author_s_proves_nothing() -> None:
    preamble = signed(create_rsa(2048))
    envelope = preamble.envelope
    assert isinstance(envelope, Authorship)
    assert envelope.key
    victim = replace(envelope, author=b"\x12\x20" + b"h" * 32)
    assert not verify_preamble("t", replace(preamble, envelope=victim))


def test_without_a_key_nothing_is_signed() -> None:
    preamble, _ = cut(b"id", b"s" * 8, b"data" * 5000)
    assert sign_preamble(None, "t", preamble, b"author", SEQNO) == Authorship(b"author", SEQNO)


def passed_on(preamble: Preamble, key: bytes) -> Preamble:
    """`preamble` as it is read where it came with `key`."""
    envelope = preamble.envelope
    assert isinstance(envelope, Authorship)
    sent = PieceAnnounce(replace(preamble, envelope=replace(envelope, key=key)), 0, 1)
    decoded = decode_frame(encode_frame(Frame("t", 1, (sent,)), lambda _: None))
    assert decoded is not None
    (message,) = decoded.messages
    assert isinstance(message, PieceAnnounce)
    return message.preamble


def test_a_key_beside_a_peer_id_that_holds_one_is_not_passed_on() -> None:
    preamble = signed(create_new_key_pair())
    assert passed_on(preamble, b"junk") == preamble


def test_a_key_that_the_peer_id_does_not_hold_is() -> None:
    preamble = signed(create_rsa(2048))
    assert isinstance(preamble.envelope, Authorship)
    assert passed_on(preamble, preamble.envelope.key) == preamble
    assert verify_preamble("t", passed_on(preamble, preamble.envelope.key))


class Unlucky(Exception):
    """There is no such signature of this message."""


class SmallRKey(Ed25519PrivateKey):
    """Signs with an R of small order."""

    @classmethod
    def made(cls, point: small_order.Point, number: int) -> KeyPair:
        key = cls.new(b"1" * 32)
        key.inner = small_order.SmallR(point, number)
        return KeyPair(key, Ed25519PublicKey.from_bytes(key.inner.public))

    inner: small_order.SmallR

    def get_public_key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_bytes(self.inner.public)

    def sign(self, data: bytes) -> bytes:
        signature = self.inner.sign(data)
        if signature is None:
            raise Unlucky
        assert small_order.holds_by_the_equation(self.inner.public, data, signature)
        return signature


class SmallKey(Ed25519PrivateKey):
    """Has a public key of small order."""

    @classmethod
    def made(cls, point: small_order.Point, number: int) -> KeyPair:
        key = cls.new(b"1" * 32)
        key.point = point
        return KeyPair(key, key.get_public_key())

    point: small_order.Point

    def get_public_key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_bytes(self.point.encoded())

    def sign(self, data: bytes) -> bytes:
        signature = small_order.signed_with_small_key(self.point, data)
        assert small_order.holds_by_the_equation(self.point.encoded(), data, signature)
        return signature


@pytest.mark.parametrize("point", small_order.SMALL, ids=lambda point: point.encoded().hex()[:6])
@pytest.mark.parametrize("kind", [SmallRKey, SmallKey])
def test_points_of_small_order_sign_nothing(
    kind: type[SmallRKey | SmallKey], point: small_order.Point
) -> None:
    """docs/wire.md: all implementations refuse the same (Go: signature_test.go), although each of
    these signatures fulfils the equation."""
    for number in range(1000):
        with suppress(Unlucky):
            preamble = signed(kind.made(point, number))
            break
    assert not verify_preamble("t", preamble)


def test_the_signatures_that_go_s_tests_read_are_these() -> None:
    path = Path(__file__).parents[2] / "interop/go/internal/payload/testdata/small_order.json"
    assert json.loads(path.read_text(encoding="utf-8")) == small_order.vectors()


def test_a_private_key_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it takes 25 ms: the library looks whether its factors are prime."""
    private = RSA.generate(1024)
    public = private.public_key()
    long_version = bytearray(private.export_key("DER"))
    assert long_version[4:7] == b"\x02\x01\x00"
    long_version[4:7] = b"\x02\x81\x02\x00\x00"
    refused = [
        private.export_key("DER"),
        private.export_key("DER", pkcs=8),
        private.export_key("PEM"),
        bytes(long_version),
    ]
    read: list[bytes] = []
    reader = RSAPublicKey.from_bytes

    def from_bytes(data: bytes) -> RSAPublicKey:
        read.append(data)
        return reader(data)

    monkeypatch.setattr(RSAPublicKey, "from_bytes", from_bytes)
    for data in refused:
        key = crypto_pb2.PublicKey(Type=crypto_pb2.KeyType.RSA, Data=data)
        assert not is_affordable(key.SerializeToString())
    assert read == []
    taken = [public.export_key("DER"), DerSequence([public.n, public.e]).encode()]
    for data in taken:
        key = crypto_pb2.PublicKey(Type=crypto_pb2.KeyType.RSA, Data=data)
        assert is_affordable(key.SerializeToString())
    assert read == taken
