"""What bytes tell without being parsed: ids in short (a sha256 in hex is 33 bytes), and schemas."""

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


def is_nim(data: bytes) -> bool:
    """Whether a message begins as nim-sds's do: field 1 as text, and then field 2 as a number."""
    at, length, shift = 1, 0, 0
    if data[:1] != b"\x0a":
        return False
    while at < len(data) and shift <= 28:
        length |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return data[at + length : at + length + 1] == b"\x10"
    return False
