"""Seals of rows: what was read is what was written, or it counts as damaged."""

from __future__ import annotations

import hashlib

_SIZE = 16


def seal(*fields: str | int | bytes) -> bytes:
    """A digest over a row's fields, each with its type and length."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    for field in fields:
        if isinstance(field, bytes):
            data, kind = field, b"b"
        else:
            data, kind = str(field).encode("utf-8", "surrogatepass"), type(field).__name__.encode()
        digest.update(b"%s%d:" % (kind, len(data)))
        digest.update(data)
    return digest.digest()
