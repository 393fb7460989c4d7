"""Events of PB traces, most of them by the column: `framing` finds where they are, and `lanes`
reads the frequent kinds.

What isn't clear at a glance is left to those that know what to do about damage: one event to
`protobuf`, and the rest of a file, from the first wrong frame on, to `trace.reading.frames`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.pipeline.reading.framing import Frames, cut
from episub_router.pipeline.reading.lanes import Events, Origin, decode
from episub_router.pipeline.reading.narrow import BODIES
from episub_router.trace.kinds import kind_of
from episub_router.trace.reading.frames import Record


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes of a trace file, from `base` on, and the events that they begin with."""

    file: str
    base: int
    data: bytes
    frames: Frames


def decode_all(
    segments: Sequence[Segment], origin: Origin
) -> tuple[list[pa.RecordBatch], list[list[Record]]]:
    """Batches of records (`ENCODED`) of the events in `segments`, and of each the events that
    aren't in a batch, in order. Raises DecodeError where one of them is none, and so where the
    frames are doubtful; with more than one segment also where an event keeps others from being
    read by the column."""
    data = b"".join(segment.data for segment in segments)
    sizes = [len(segment.data) for segment in segments]
    places = np.cumsum([0, *sizes[:-1]])
    counts = [len(segment.frames) for segment in segments]
    begins, ends, starts, kinds = (
        np.concatenate(parts)
        for parts in (
            [s.frames.begins + at for s, at in zip(segments, places, strict=True)],
            [s.frames.ends + at for s, at in zip(segments, places, strict=True)],
            [s.frames.starts + s.base for s in segments],
            [s.frames.kinds for s in segments],
        )
    )
    files = np.repeat(np.arange(len(segments), dtype=np.int32), counts)
    names = pa.array([segment.file for segment in segments], pa.string())
    batches: list[pa.RecordBatch] = []
    left = [np.flatnonzero(~np.isin(kinds, list(BODIES)))]
    for kind in BODIES:
        chosen = np.flatnonzero(kinds == kind)
        if not len(chosen):
            continue
        raw = cut(data, begins, ends, chosen)
        batch, doubtful = decode(origin, kind, Events(raw, starts[chosen], files[chosen], names))
        if batch is None and len(segments) > 1:
            raise DecodeError("an event is unlike others")
        left.append(chosen[doubtful])
        if batch is not None and len(batch):
            batches.append(batch)
    others: list[list[Record]] = [[] for _ in segments]
    for place in np.sort(np.concatenate(left)).tolist():
        event = TraceEvent.FromString(data[begins[place] : ends[place]])
        if kind_of(event) is None:
            raise DecodeError(f"no event at {starts[place]}")
        others[files[place]].append((int(starts[place]), event))
    return batches, others
