"""What a trace file is known by: a digest of its content, and the run that its header names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow.parquet as pq

from episub_router.pipeline.reading import simulator
from episub_router.pipeline.reading.columns import BATCH, as_text
from episub_router.pipeline.reading.files import UNREADABLE, is_parquet
from episub_router.trace.reading import TraceFile, Unreadable
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


def run_of(path: str) -> str | None:
    """The run that the header of the file at `path` names; None where the first event that can be
    read is no header, or none can be. Raises OSError where the file can't be opened."""
    if is_parquet(path):
        try:
            header = simulator.header(pq.read_schema(path).metadata)
        except UNREADABLE:
            return None
        return str(header["run"]) if header.get("run") else None
    with TraceFile(path) as trace:
        for number, (_, event) in enumerate(trace):
            if not isinstance(event, Unreadable):
                return as_text(event.header.run) or None
            if number >= BATCH:
                break
    return None
