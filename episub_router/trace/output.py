"""One trace file being written: whole events only, whatever happens to the disk."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.params import CollectorParams, TracerParams
from episub_router.trace.reading.json_lines import to_json

_MEMBER = 1 << 18
"""Bytes in each member of a gzip file: what damage to it can cost."""

_JSON = (".json", ".jsonl", ".ndjson")


def encode_frame(event: bytes) -> bytes:
    """`event` behind its length."""
    size = len(event)
    prefix = bytearray()
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + event


def encode_line(event: bytes) -> bytes:
    """`event` as a line of JSON."""
    return to_json(TraceEvent.FromString(event)).encode() + b"\n"


class TraceOutput:
    """Appends events to the file at `path`, in the format that its name gives.

    `.gz` at the end: gzipped; before it one of `.json`, `.jsonl` and `.ndjson`: JSON lines,
    else PB. A file that is there already is kept, under the next free number (`finished`).
    Raises OSError, here and in all methods, and leaves no half event behind.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock, self._begun = clock, clock()
        names = [suffix.lower() for suffix in path.suffixes]
        self._gzip = names[-1:] == [".gz"]
        plain = names[:-1] if self._gzip else names
        self._encode = encode_line if plain and plain[-1] in _JSON else encode_frame
        if path.exists() and path.stat().st_size:
            os.rename(path, finished(path))
        # Each write is one call of the system, so that it is known what was not written.
        self._file = path.open("wb", buffering=0)
        self._deflate = _deflater()
        self._in_member = 0
        self.size = 0
        """Bytes in the file."""

    def append(self, events: Sequence[bytes]) -> None:
        """Write serialised `events`, all or none."""
        data = b"".join(map(self._encode, events))
        if not self._gzip:
            self._write(data)
            return
        before = self._deflate.copy()
        packed = self._deflate.compress(data)
        ends = self._in_member + len(data) >= _MEMBER
        packed += self._deflate.flush(zlib.Z_FINISH if ends else zlib.Z_SYNC_FLUSH)
        try:
            self._write(packed)
        except OSError:
            self._deflate = before
            raise
        self._in_member = 0 if ends else self._in_member + len(data)
        if ends:
            self._deflate = _deflater()

    def is_complete(self, params: TracerParams | CollectorParams) -> bool:
        """Whether the file has reached its size or age."""
        age = self._clock() - self._begun
        return self.size >= params.max_size or age >= params.max_age

    def close(self) -> None:
        """End the file."""
        try:
            if self._gzip and (self._in_member or not self.size):
                self._write(self._deflate.flush(zlib.Z_FINISH))
        finally:
            self._file.close()

    def rotate(self) -> None:
        """End the file and put it aside."""
        self.close()
        os.rename(self._path, finished(self._path))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(self.size)
                self._file.seek(self.size)
            raise
        self.size += len(data)


def finished(path: Path) -> Path:
    """The next free name for a file that is complete: `node.pb` becomes `node.00000.pb`."""
    stem = path.name.removesuffix("".join(path.suffixes))
    suffixes = path.name[len(stem) :]
    pattern = re.compile(re.escape(stem) + r"\.(\d{5,})" + re.escape(suffixes))
    taken = [int(m[1]) for name in os.listdir(path.parent) if (m := pattern.fullmatch(name))]
    return path.with_name(f"{stem}.{max(taken, default=-1) + 1:05}{suffixes}")


def _deflater() -> zlib._Compress:
    return zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
