"""Peers and messages as text."""

from typing import Any

import base58

CACHED = 200_000
"""Names held at most by one cache: far more than one file repeats."""

_MULTIHASHES = (b"\x12\x20", b"\x00\x24", b"\x00\x25", b"\x00\x27")
"""How peer ids begin: SHA-256, or identity with an Ed25519 or a secp256k1 key."""


def peer_name(peer: bytes) -> str:
    """The text form of a peer id: base58 as libp2p writes it; text that was never a multihash
    stays text, other bytes are hexadecimal. A simulated node's is what its identity multihash
    holds, `sim-<number>`."""
    if peer[:2] in _MULTIHASHES:
        return base58.b58encode(peer).decode("ascii")
    if len(peer) > 2 and peer[0] == 0 and peer[1] == len(peer) - 2:
        return message_name(peer[2:])
    return message_name(peer)


def message_name(message: bytes) -> str:
    """Printable ASCII as it is, hexadecimal otherwise."""
    if message.isascii():
        text = message.decode("ascii")
        if text.isprintable():
            return text
    return message.hex()


def as_text(value: Any) -> Any:
    """`value` with all bytes in it as text, what isn't UTF-8 as escapes."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list):
        return [as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    return value
