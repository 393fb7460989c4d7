"""Traces of events, PB or JSON, as records: the events of many small files are decoded at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from google.protobuf.message import DecodeError

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.pipeline.reading.columns import BATCH, Columns
from episub_router.pipeline.reading.fast import Segment, decode_all
from episub_router.pipeline.reading.framing import split
from episub_router.pipeline.reading.lanes import LATEST
from episub_router.pipeline.reading.protobuf import EventDecoder
from episub_router.trace.reading import Record, TraceFile, Unreadable
from episub_router.trace.reading.frames import read_frames
from episub_router.trace.reading.pieces import Hole

CHUNK = 1 << 22
"""Bytes decoded at once: some twenty-five thousand events."""


@dataclass(slots=True)
class _File:
    """What is counted of a file, and the begin of its last row's detail."""

    name: str
    books: dict[str, object] = field(default_factory=dict)
    records: int = 0


class EventReader:
    """Records of trace files of one run. Memory is bounded by a few chunks."""

    def __init__(self, run: str) -> None:
        self._columns = Columns(run, "")
        self._decoder = EventDecoder(self._columns)
        self._origin = self._decoder.origin(run)
        self._held: list[tuple[_File, Segment]] = []
        """Files that end with this segment, and wait for others to be decoded with."""
        self._bytes = 0

    def read(self, path: str, name: str, notes: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Batches (`RECORD` or `ENCODED`) of the records of the file at `path`, called `name`, or
        of files before it; what is missing is in the next ones, or `rest`. `notes` go into the last
        row. Raises OSError where the file can't be opened; nothing that it contains raises."""
        with TraceFile(path) as trace:
            kind = trace.format + ("+gz" if trace.gzipped else "")
            file = _File(name, {**notes, "format": kind, "bytes": trace.size})
            if trace.format == "pb":
                yield from self._pb(trace.pieces, file)
            else:
                yield from self._one_by_one(file, trace)
                yield from self._end(file)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The batches that are left."""
        yield from self._settle_held()
        if len(self._columns):
            yield self._columns.take()

    def _pb(self, pieces: Iterable[bytes | Hole], file: _File) -> Iterator[pa.RecordBatch]:
        source = iter(pieces)
        base, data = 0, b""
        while True:
            data, piece = _chunk(data, source)
            segment = Segment(file.name, base, data, split(data))
            if piece is None:
                self._held.append((file, segment))
                self._bytes += len(data)
                if self._bytes >= CHUNK:
                    yield from self._settle_held()
                return
            try:
                yield from self._decoded([(file, segment)])
            except DecodeError:
                break
            end = segment.frames.end
            base, data = base + end, data[end:]
            # At a hole and at what looks wrong.
            if not isinstance(piece, bytes) or len(data) >= CHUNK or not end:
                break
        rest: list[bytes | Hole] = [data]
        if isinstance(piece, Hole):
            rest.append(piece)
        yield from self._one_by_one(file, read_frames(chain(rest, source)), base)
        yield from self._end(file)

    def _settle_held(self) -> Iterator[pa.RecordBatch]:
        held, self._held, self._bytes = self._held, [], 0
        if held:
            yield from self._settle(held)

    def _settle(self, ended: list[tuple[_File, Segment]]) -> Iterator[pa.RecordBatch]:
        """The records of `ended`, with which these files end."""
        doubtful = False
        try:
            yield from self._decoded(ended)
        except DecodeError:
            if len(ended) > 1:
                for one in ended:
                    yield from self._settle([one])
                return
            doubtful = True
        for file, segment in ended:
            end = 0 if doubtful else segment.frames.end
            tail = read_frames([segment.data[end:]])
            yield from self._one_by_one(file, tail, segment.base + end)
            yield from self._end(file)

    def _decoded(self, parts: list[tuple[_File, Segment]]) -> Iterator[pa.RecordBatch]:
        """The records of the events that `parts` begin with. Raises DecodeError, and adds nothing,
        as `decode_all` does."""
        batches, others = decode_all([segment for _, segment in parts], self._origin)
        yield from batches
        for (file, segment), left in zip(parts, others, strict=True):
            file.records += len(segment.frames) - len(left)
            yield from self._one_by_one(file, left)

    def _one_by_one(
        self, file: _File, records: Iterable[Record], base: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Add `records`, whose offsets are counted from `base`."""
        self._columns.file = file.name
        for offset, event in records:
            self._add(base + offset, event)
            file.records += 1
            yield from self._full()

    def _add(self, offset: int, event: TraceEvent | Unreadable) -> None:
        columns = self._columns
        if isinstance(event, Unreadable):
            columns.quarantine(offset, event.size, event.reason)
        elif not event.HasField("timestamp"):
            columns.quarantine(offset, event.ByteSize(), "an event without a timestamp")
        elif not 0 <= event.timestamp < LATEST:
            columns.quarantine(offset, event.ByteSize(), f"an event at {event.timestamp} ns")
        else:
            self._decoder.add(offset, event)

    def _end(self, file: _File) -> Iterator[pa.RecordBatch]:
        self._columns.file = file.name
        self._columns.end(books(file.books, file.records))
        yield from self._full()

    def _full(self) -> Iterator[pa.RecordBatch]:
        if len(self._columns) >= BATCH:
            yield self._columns.take()


def books(known: Mapping[str, object], records: int) -> str:
    """What a file's last row has as its detail."""
    return json.dumps({**known, "records": records}, sort_keys=True)


def _chunk(data: bytes, source: Iterator[bytes | Hole]) -> tuple[bytes, bytes | Hole | None]:
    """`data` and what follows in `source`, up to a chunk; and what came last, None at the end."""
    pieces, size = [data], len(data)
    piece: bytes | Hole | None = b""
    while size < CHUNK and isinstance(piece := next(source, None), bytes):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), piece
