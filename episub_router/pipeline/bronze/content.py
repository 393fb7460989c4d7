"""What a trace file is known by: a digest of its content."""

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

from episub_router.trace.reading.pieces import Hole, gunzipped, is_gzip, plain


def digest_of(path: str, name: str) -> str:
    """SHA-256 (hexadecimal) of the content of the file at `path`, which is called `name`: of a
    gzipped one after decompression, so that a trace has one digest however it is stored. A gzipped
    file that is damaged is known by its bytes. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in _pieces(file, name):
            if isinstance(piece, Hole):
                file.seek(0)
                return hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(piece)
    return digest.hexdigest()


def _pieces(file: BinaryIO, name: str) -> Iterator[bytes | Hole]:
    start = file.read(3)
    file.seek(0)
    return gunzipped(file) if is_gzip(start, name) else plain(file)


HEAD = 1 << 12
"""Bytes that tell which process's trace a file is: the header, and its first events."""


def head_of(path: str) -> bytes:
    """What the file at `path` begins with."""
    with open(path, "rb") as file:
        return file.read(HEAD)


def is_grown(path: str, earlier: str) -> bool:
    """Whether the file at `path` begins with all of the one at `earlier`, and goes on."""
    with open(path, "rb") as whole, open(earlier, "rb") as part:
        while block := part.read(1 << 20):
            if whole.read(len(block)) != block:
                return False
        return bool(whole.read(1))
