"""Events of a PB trace, most of them by the column: framing here, the frequent kinds in `lanes`.

What isn't clear at a glance is left to those that know what to do about damage: one event to
`protobuf`, and the rest of a file, from the first wrong frame on, to `trace.reading.frames`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pyarrow as pa
from google.protobuf.message import DecodeError

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.pipeline.reading.lanes import Origin, decode
from episub_router.pipeline.reading.narrow import BODIES
from episub_router.trace.kinds import kind_of
from episub_router.trace.reading.frames import Record, read_frames
from episub_router.trace.reading.pieces import Hole

CHUNK = 1 << 21
"""Bytes decoded at once: some ten thousand events."""

_GLIMPSE = 6
"""Bytes that show whether an event begins: length, type, and the tag of the peer id."""

_Frames = dict[int, tuple[list[int], list[bytes]]]
"""By `TraceEvent.Type`, or -1 where that isn't known: offsets and events."""


def read_fast(
    pieces: Iterable[bytes | Hole], origin: Origin, slow: Callable[[Record], None]
) -> Iterator[pa.RecordBatch | None]:
    """Batches of records (`ENCODED`) of the events in `pieces`; `slow` is called with each one that
    isn't in a batch, and with what can't be read. A None in between says that there may have been
    many of those. Memory is bounded by a few chunks."""
    source = iter(pieces)
    base, data = 0, b""
    while True:
        piece: bytes | Hole | None = b""
        while len(data) < CHUNK and isinstance(piece := next(source, None), bytes):
            data += piece
        frames, end = _split(data, base)
        try:
            batches, others = _decoded(frames, origin)
        except DecodeError:
            break
        yield from batches
        for record in others:
            slow(record)
        yield None
        base, data = base + end, data[end:]
        # At the end, at a hole and at what looks wrong.
        if not isinstance(piece, bytes) or len(data) >= CHUNK or not end:
            break
    rest: list[bytes | Hole] = [data]
    if isinstance(piece, Hole):
        rest.append(piece)
    for at, found in read_frames(chain(rest, source)):
        slow((base + at, found))
        yield None


def _split(data: bytes, base: int) -> tuple[_Frames, int]:
    """The events at the beginning of `data`, the first of which is at `base` in the file, and where
    they end. Each is followed by what looks like another."""
    frames: _Frames = {kind: ([], []) for kind in (*BODIES, -1)}
    sinks = [frames[kind if kind in BODIES else -1] for kind in range(256)]
    adders = [(offsets.append, events.append) for offsets, events in (*sinks, frames[-1])]
    at, room = 0, len(data) - _GLIMPSE
    while at < room:
        length = data[at]
        start = at + 1
        if length > 0x7F:
            high = data[start]
            if high > 0x7F:
                break
            length += (high - 1) << 7
            start += 1
        end = start + length
        if end > room or data[end + 1 + (data[end] > 0x7F)] != 0x08:
            break
        add_offset, add_event = adders[data[start + 1] if data[start] == 0x08 else -1]
        add_offset(base + at)
        add_event(data[start:end])
        at = end
    return frames, at


def _decoded(frames: _Frames, origin: Origin) -> tuple[list[pa.RecordBatch], list[Record]]:
    """Batches of the frequent kinds, and the other events, in order. Raises DecodeError where one
    of them is none, and so where the frames are doubtful."""
    batches, left = [], list(zip(*frames[-1], strict=True))
    for kind in BODIES:
        offsets, events = frames[kind]
        if events:
            batch, doubtful = decode(origin, kind, events, offsets)
            left += [(offsets[place], events[place]) for place in doubtful]
            if batch is not None and len(batch):
                batches.append(batch)
    others: list[Record] = []
    for offset, raw in sorted(left):
        event = TraceEvent.FromString(raw)
        if kind_of(event) is None:
            raise DecodeError(f"no event at {offset}")
        others.append((offset, event))
    return batches, others
