"""Which public keys are cheap enough to verify signatures with."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from libp2p.crypto.rsa import RSAPublicKey
from libp2p.peer.pb import crypto_pb2, envelope_pb2

MAX_KEY_BYTES = 640
"""Serialized; ours: an RSA key of 4,096 bits takes 558."""

MAX_RSA_BITS = 4096
"""As py-libp2p and go-libp2p. A check takes 0.6 ms."""

MAX_EXPONENT_BITS = 32
"""Ours: keys have 65537 (17 bits). With 4,096 bits a check takes 100 times as long."""


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
        impl = RSAPublicKey.from_bytes(parsed.Data).impl
    except Exception:
        # The key libraries raise nearly anything for bad keys.
        return True
    return (
        impl.size_in_bits() <= MAX_RSA_BITS
        and int(impl.e).bit_length() <= MAX_EXPONENT_BITS
        and not impl.has_private()
    )


def has_affordable_key(envelope: bytes) -> bool:
    """As `is_affordable`, of the key in a signed envelope."""
    try:
        parsed = envelope_pb2.Envelope.FromString(envelope)
    except DecodeError:
        return True
    return is_affordable(parsed.public_key.SerializeToString())
