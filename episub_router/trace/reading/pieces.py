"""The bytes of a trace file, decompressed where they are gzipped, with the holes named.

A gzip stream can't be read on past damage, but the next member of the file can. Our own writer
starts a member now and then for this reason; Go's `traced` writes one per file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

PIECE = 1 << 18
"""Bytes read at once, and at most decompressed at once."""

_STEP = 64
"""Bytes decompressed at once where damage is near."""

_MAGIC = b"\x1f\x8b"
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]....[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL)
_HEADER = 10
_PLAIN_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_WITH_NAME = 0x08


@dataclass(frozen=True, slots=True)
class Hole:
    """Bytes are missing here, and what follows may start in the middle of an event."""

    reason: str


def is_gzip(start: bytes, name: str = "") -> bool:
    """Whether a file that begins with `start` is gzipped, be its first bytes damaged or not."""
    if start.startswith(_MAGIC):
        return True
    alike = sum(a == b for a, b in zip(start, b"\x1f\x8b\x08", strict=False))
    return alike == 2 or (alike == 1 and name.endswith(".gz"))


def plain(file: BinaryIO) -> Iterator[bytes | Hole]:
    """`file` as it is."""
    while piece := file.read(PIECE):
        yield piece


def gunzipped(file: BinaryIO) -> Iterator[bytes | Hole]:
    """The members of the gzip file `file`, which must be seekable, one after another."""
    start = 0
    while True:
        member = _Member(file, start)
        yield from member.pieces()
        if member.end is not None:
            start = member.end
            if _at_end(file, start):
                return
            continue
        if member.error is None:
            yield Hole(f"the gzip stream that begins at {start} is cut off")
        else:
            yield Hole(f"the gzip stream that begins at {start} is damaged: {member.error}")
        found = _next_member(file, start + 1)
        if found is None:
            return
        start = found


class _Member:
    """One member, from `start` on. Once `pieces` is through, either `end`, the position behind
    it, is set, or `error`, or neither where the file ended first."""

    def __init__(self, file: BinaryIO, start: int) -> None:
        self._file = file
        self._start = start
        self.end: int | None = None
        self.error: str | None = None

    def pieces(self) -> Iterator[bytes]:
        self._file.seek(self._start)
        header = self._file.read(_HEADER)
        for attempt in _headers(header):
            self.error = None
            some = False
            for piece in self._inflate(attempt):
                some = True
                yield piece
            if some or self.end is not None:
                return

    def _inflate(self, header: bytes) -> Iterator[bytes]:
        self._file.seek(self._start + len(header))
        inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        waiting = header
        try:
            while True:
                before = inflater.copy()
                piece = inflater.decompress(waiting, PIECE)
                if piece:
                    yield piece
                if inflater.eof:
                    self.end = self._file.tell() - len(inflater.unused_data)
                    return
                waiting = inflater.unconsumed_tail
                if not waiting and not piece:
                    waiting = self._file.read(PIECE)
                    if not waiting:
                        return
        except zlib.error as error:
            self.error = str(error)
            yield from _up_to_damage(before, waiting)


def _up_to_damage(inflater: zlib._Decompress, waiting: bytes) -> Iterator[bytes]:
    """What comes out of `waiting` before the error that is in it."""
    try:
        while waiting and (piece := inflater.decompress(waiting, _STEP)):
            yield piece
            waiting = inflater.unconsumed_tail
    except zlib.error:
        return


def _headers(header: bytes) -> Iterator[bytes]:
    """What the header may have been before it was damaged, as it is first."""
    yield header
    if len(header) == _HEADER and _resembles(header):
        yield _PLAIN_HEADER
        yield _PLAIN_HEADER[:3] + bytes([_WITH_NAME]) + _PLAIN_HEADER[4:]


def _resembles(header: bytes) -> bool:
    return sum(a == b for a, b in zip(header, _PLAIN_HEADER[:4], strict=False)) >= 2


def _at_end(file: BinaryIO, position: int) -> bool:
    """Whether nothing but padding follows."""
    file.seek(position)
    while piece := file.read(_HEADER):
        if piece.strip(b"\0"):
            return False
    return True


def _next_member(file: BinaryIO, position: int) -> int | None:
    """Where the next member begins that can be read at least in part."""
    file.seek(position)
    window, base = b"", position
    while piece := file.read(PIECE):
        window += piece
        for match in _MEMBER.finditer(window):
            start = base + match.start()
            inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            try:
                inflater.decompress(window[match.start() :], PIECE)
            except zlib.error:
                continue
            return start
        kept = window[-_HEADER:]
        base += len(window) - len(kept)
        window = kept
    return None
