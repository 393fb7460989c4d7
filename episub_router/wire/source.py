"""How frames name peers and messages, and the author of a message: by eight bytes of a digest of
its peer id."""

from __future__ import annotations

from hashlib import sha256

SOURCE_BYTES = 8
"""Chosen: a peer id takes 38. Sources of one topic whose digests are equal share a tree; for a
given source, finding such a key takes 2^64 tries."""


def source_id(author: bytes) -> bytes | None:
    """The source that a message's `from` names; None for a message without an author."""
    return sha256(author).digest()[:SOURCE_BYTES] if author else None


def id_bytes(value: object) -> bytes:
    """`value`, an id of the core, for the wire. Raises TypeError unless it is bytes."""
    if not isinstance(value, bytes):
        raise TypeError(f"ids on the wire are bytes: {value!r}")
    return value


def source_bytes(value: object) -> bytes:
    """`value`, a source of the core, for the wire. Raises TypeError unless it is eight bytes."""
    if not isinstance(value, bytes) or len(value) != SOURCE_BYTES:
        raise TypeError(f"sources on the wire are {SOURCE_BYTES} bytes: {value!r}")
    return value
