"""Which public keys are cheap enough to verify signatures with, and which may sign preambles."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from libp2p.crypto.keys import KeyType, PublicKey
from libp2p.crypto.rsa import RSAPublicKey
from libp2p.peer.pb import crypto_pb2, envelope_pb2

MAX_KEY_BYTES = 640
"""Serialized; chosen: an RSA key of 4,096 bits takes 558."""

MAX_RSA_BITS = 4096
"""As py-libp2p and go-libp2p. A check takes 0.6 ms."""

MAX_EXPONENT_BITS = 32
"""Chosen: keys have 65537 (17 bits). With 4,096 bits a check takes 100 times as long."""

MIN_RSA_BITS = 2048
"""Of a preamble's author; as go-libp2p and libp2p's specification of peer ids."""

MAX_EXPONENT = (1 << 31) - 1
"""Likewise; as Go's library, which counts larger ones as wrong signatures."""


def is_for_preambles(key: PublicKey) -> bool:
    """Whether every implementation takes preambles that are signed with `key`: it passes on only
    what it can check itself, so a message with another key ends somewhere."""
    if not isinstance(key, RSAPublicKey):
        return key.get_type() in (KeyType.Ed25519, KeyType.Secp256k1)
    impl = key.impl
    modulus, exponent = int(impl.n), int(impl.e)
    return (
        MIN_RSA_BITS <= impl.size_in_bits() <= MAX_RSA_BITS
        and bool(modulus % 2 and exponent % 2)
        and 1 < exponent <= MAX_EXPONENT
        and not impl.has_private()
    )


def is_affordable(key: bytes) -> bool:
    """Whether a check with `key`, a serialized libp2p PublicKey, takes a millisecond at most.

    True for what is no key: that is found out in less. Never raises.
    """
    if len(key) > MAX_KEY_BYTES:
        return False
    try:
        parsed = crypto_pb2.PublicKey.FromString(key)
        if parsed.Type != crypto_pb2.KeyType.RSA:
            return True
        if _is_private(parsed.Data):
            return False
        impl = RSAPublicKey.from_bytes(parsed.Data).impl
    except Exception:
        # The key libraries raise nearly anything for bad keys.
        return True
    return (
        impl.size_in_bits() <= MAX_RSA_BITS
        and int(impl.e).bit_length() <= MAX_EXPONENT_BITS
        and not impl.has_private()
    )


def _is_private(data: bytes) -> bool:
    """Whether `data` is an RSA private key in DER, or text, which may be one. The key libraries
    take those, too, and look whether their factors are prime: 3 ms of CPU, and 25 for 600 bytes."""
    if data[:1] != b"\x30":
        return data.startswith(b"-----BEGIN ") and b"-----END " in data
    begin, _ = _content(data, 1)
    if data[begin : begin + 1] != b"\x02":
        return False
    # The first number is a version, 0, however many bytes that has; in a public key, the modulus.
    begin, end = _content(data, begin + 1)
    return not any(data[begin:end])


def _content(data: bytes, place: int) -> tuple[int, int]:
    """Where what has its length at `place`, in DER or what resembles it, begins and ends."""
    first, begin = data[place], place + 1
    if first & 0x80:
        begin += first & 0x7F
        first = int.from_bytes(data[place + 1 : begin], "big")
    return begin, begin + first


def has_affordable_key(envelope: bytes) -> bool:
    """As `is_affordable`, of the key in a signed envelope."""
    try:
        parsed = envelope_pb2.Envelope.FromString(envelope)
    except DecodeError:
        return True
    return is_affordable(parsed.public_key.SerializeToString())
