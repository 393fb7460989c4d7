"""Traces of events, PB or JSON, as records: the events of many small files are decoded at once."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from episub_router.pipeline.reading.batches import assemble
from episub_router.pipeline.reading.decoding import EventDecoder, Events, type_of
from episub_router.trace.kinds import TYPED
from episub_router.trace.reading import Record, TraceFile, Unreadable
from episub_router.trace.reading.frames import glance, read_frames
from episub_router.trace.reading.pieces import Hole

BATCH = 20_000
"""Records in one batch: some 5 MB, of which a worker holds one or two."""

CHUNK = 1 << 22
"""Bytes decoded at once: some twenty-five thousand events."""


@dataclass(slots=True)
class _File:
    """What is counted of a file, and the begin of its last row's detail."""

    name: str
    books: dict[str, object] = field(default_factory=dict)
    records: int = 0


@dataclass(frozen=True, slots=True)
class _Segment:
    """Bytes of a file from `base` on, and the events that they begin with: where the length before
    each starts, and where each begins and ends itself."""

    file: _File
    base: int
    data: bytes
    frames: Any

    @property
    def end(self) -> int:
        """Where the last event ends."""
        return int(self.frames[-1, 2]) if len(self.frames) else 0


class EventReader:
    """Records of trace files of one run. Memory is bounded by a few chunks."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._decoder = EventDecoder(run)
        self._held: list[_Segment] = []
        """Files that end with this segment, and wait for others to be decoded with."""
        self._bytes = 0
        self._events: list[tuple[int, bytes, int, str]] = []
        """Type, bytes, offset and file of events that were read one by one."""
        self._notes: list[tuple[str, int, str, int | None, str]] = []
        """File, offset, status, size and detail of what is no event."""

    def read(self, path: str, name: str, notes: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Batches (`ENCODED`) of the records of the file at `path`, called `name`, or of files
        before it; what is missing is in the next ones, or `rest`. `notes` go into the last row.
        Raises OSError where the file can't be opened; nothing that it contains raises."""
        with TraceFile(path) as trace:
            kind = trace.format + ("+gz" if trace.gzipped else "")
            file = _File(name, {**notes, "format": kind, "bytes": trace.size})
            if trace.format == "pb":
                yield from self._pb(trace.pieces, file)
            else:
                yield from self._one_by_one(file, trace)
                self._end(file)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The batches that are left."""
        yield from self._settle_held()
        yield from self._flushed()

    def _pb(self, pieces: Iterable[bytes | Hole], file: _File) -> Iterator[pa.RecordBatch]:
        source = iter(pieces)
        base, data = 0, b""
        while True:
            data, piece = _chunk(data, source)
            frames = np.array(list(glance(data, 0)), dtype=np.int64).reshape(-1, 3)
            segment = _Segment(file, base, data, frames)
            if piece is None:
                self._held.append(segment)
                self._bytes += len(data)
                if self._bytes >= CHUNK:
                    yield from self._settle_held()
                return
            try:
                yield from self._decoded([segment])
            except DecodeError:
                break
            base, data = base + segment.end, data[segment.end :]
            # At a hole and at what looks wrong.
            if not isinstance(piece, bytes) or len(data) >= CHUNK or not segment.end:
                break
        rest: list[bytes | Hole] = [data]
        if isinstance(piece, Hole):
            rest.append(piece)
        yield from self._one_by_one(file, read_frames(chain(rest, source)), base)
        self._end(file)

    def _settle_held(self) -> Iterator[pa.RecordBatch]:
        held, self._held, self._bytes = self._held, [], 0
        if held:
            yield from self._settle(held)

    def _settle(self, ended: list[_Segment]) -> Iterator[pa.RecordBatch]:
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
        for segment in ended:
            end = 0 if doubtful else segment.end
            tail = read_frames([segment.data[end:]])
            yield from self._one_by_one(segment.file, tail, segment.base + end)
            self._end(segment.file)

    def _decoded(self, segments: list[_Segment]) -> list[pa.RecordBatch]:
        """The records of the events that `segments` begin with. Raises DecodeError, and counts
        nothing, where one of them is none: then the frames are doubtful."""
        data = b"".join(segment.data for segment in segments)
        places = np.cumsum([0, *(len(segment.data) for segment in segments[:-1])])
        bounds = [s.frames[:, 1:] + at for s, at in zip(segments, places, strict=True)]
        starts = np.concatenate([segment.frames[:, 0] + segment.base for segment in segments])
        begins, ends = np.concatenate(bounds).T
        if not len(begins):
            return []
        content = np.frombuffer(data, np.uint8)
        numbers = np.where(content[begins] == 0x08, content[begins + 1].astype(int), len(TYPED))
        if (numbers >= len(TYPED)).any():
            raise DecodeError("an event begins unlike others")
        # What is between two events is a stretch of bytes, too.
        edges = np.column_stack([begins, ends]).astype(np.int32).ravel()
        stretches = pa.BinaryArray.from_buffers(
            pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
        )
        counts = [len(segment.frames) for segment in segments]
        files = np.repeat(np.arange(len(segments), dtype=np.int32), counts)
        names = pa.array([segment.file.name for segment in segments], pa.string())
        batches = []
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            of_file = pa.DictionaryArray.from_arrays(files[rows], names)
            raw = stretches.take(pa.array(2 * rows))
            batches += self._decoder.decode(Events(number, raw, starts[rows], of_file))
        for segment in segments:
            segment.file.records += len(segment.frames)
        return batches

    def _one_by_one(
        self, file: _File, records: Iterable[Record], base: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Add `records`, whose offsets are counted from `base`."""
        for at, event in records:
            file.records += 1
            if isinstance(event, Unreadable):
                self._notes.append((file.name, base + at, "quarantined", event.size, event.reason))
            else:
                number = type_of(event)
                event.DiscardUnknownFields()
                raw = event.SerializeToString()
                self._events.append((number, raw, base + at, file.name))
            if len(self._events) + len(self._notes) >= BATCH:
                yield from self._flushed()

    def _flushed(self) -> Iterator[pa.RecordBatch]:
        """The batches of what was read one by one."""
        events, self._events = self._events, []
        for number in sorted({event[0] for event in events}):
            raw, offsets, names = zip(*(event[1:] for event in events if event[0] == number),
                                      strict=True)  # fmt: skip
            files = pa.array(names).dictionary_encode()
            of_type = Events(number, pa.array(raw, pa.binary()), np.array(offsets), files)
            yield from self._decoder.decode(of_type, sound=True)
        notes, self._notes = self._notes, []
        if notes:
            yield noted(self._run, notes)

    def _end(self, file: _File) -> None:
        self._notes.append((file.name, 0, "file", None, books(file.books, file.records)))


def noted(run: str, notes: Iterable[tuple[str, int, str, int | None, str]]) -> pa.RecordBatch:
    """Records of what is no event: file, offset, status, size and detail of each."""
    files, offsets, statuses, sizes, details = zip(*notes, strict=True)
    columns = {
        "status": pa.array(statuses), "size": pa.array(sizes, pa.int32()),
        "detail": pa.array(details),
    }  # fmt: skip
    return assemble(run, pa.array(files).dictionary_encode(), np.array(offsets), columns)


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
