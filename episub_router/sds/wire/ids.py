"""Message ids in short: a sha256 in hex is 33 bytes."""

from __future__ import annotations

import re

from episub_router.sds.protocol.message import MessageId

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST, _TEXT = b"\x01", b"\x00"


def pack_id(message_id: MessageId) -> bytes:
    """A byte 1 and the 32 bytes of a sha256 in hex; a byte 0 and the text of any other id."""
    if _SHA256.fullmatch(message_id):
        return _DIGEST + bytes.fromhex(message_id)
    return _TEXT + message_id.encode()


def unpack_id(data: bytes) -> MessageId | None:
    """The id; None where the bytes are none."""
    kind, rest = data[:1], data[1:]
    if kind == _DIGEST:
        return rest.hex() if len(rest) == 32 else None
    if kind != _TEXT:
        return None
    try:
        return rest.decode()
    except UnicodeDecodeError:
        return None
