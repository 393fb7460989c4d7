"""Where the events of a PB trace begin and end.

Most events of a file begin alike: with a length, their type and the peer whose trace it is. So
lengths are checked for many events at once, between the places where that peer stands; what is
different is gone through one event after another. Both find the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from episub_router.trace.reading.frames import GLIMPSE, glance

_LEAST = 8
"""Events in a row from which on checking them at once pays."""

_WORD = 8
"""Bytes that are compared at once."""

Ints = Any
"""An array of 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The events that some bytes begin with, one behind the other."""

    starts: Ints
    """Where the length before each is."""
    begins: Ints
    """Where each is itself; it ends where the next one starts."""
    kinds: Ints
    """`TraceEvent.Type`, or -1 where that isn't known."""
    end: int
    """Where the last one ends."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Ints:
        """Where each ends."""
        return np.append(self.starts, self.end)[1:]


def split(data: bytes) -> Frames:
    """The events at the beginning of `data`, each of which is followed by what looks like
    another."""
    room = len(data) - GLIMPSE
    walked: tuple[list[int], list[int]] = ([], [])
    starts: list[Ints] = []
    begins: list[Ints] = []

    def put_walked() -> None:
        for arrays, numbers in zip((starts, begins), walked, strict=True):
            arrays.append(np.array(numbers, dtype=np.int64))
            numbers.clear()

    at = 0
    for some, of_some, end in _alike(data, room):
        begin = int(some[0])
        at = _walk(data, at, begin, walked)
        if at < begin:
            break
        if at == begin:
            put_walked()
            starts.append(some)
            begins.append(of_some)
            at = end
    else:
        at = _walk(data, at, room, walked)
    put_walked()
    begun = np.concatenate(begins)
    content = np.frombuffer(data, np.uint8)
    kinds = np.where(content[begun] == 0x08, content[begun + 1].astype(np.int64), -1)
    return Frames(np.concatenate(starts), begun, kinds, at)


def cut(data: bytes, begins: Ints, ends: Ints, chosen: Ints) -> pa.Array:
    """Those of the stretches of `data` from `begins` to `ends`, which are in order, that have the
    numbers `chosen`."""
    bounds = np.empty(2 * len(begins), dtype=np.int32)
    bounds[0::2], bounds[1::2] = begins, ends
    # What is between two of them is one, too.
    stretches = pa.BinaryArray.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return stretches.take(pa.array(2 * chosen))


def _walk(data: bytes, at: int, until: int, found: tuple[list[int], list[int]]) -> int:
    """Go from `at` on from event to event; where the first one is that begins at `until` or later,
    or is none. Those before it are `found`."""
    add_start, add_begin = found[0].append, found[1].append
    for start, begin, end in glance(data, at):
        if start >= until:
            break
        add_start(start)
        add_begin(begin)
        at = end
    return at


def _alike(data: bytes, room: int) -> Iterator[tuple[Ints, Ints, int]]:
    """Stretches of events as `_walk` finds them if it comes to the first one: their starts, begins,
    and the end of the last one."""
    mark = _mark(data)
    if not mark:
        return
    begins = _places(data, mark) - 2
    if len(begins) < _LEAST:
        return
    steps = np.diff(begins)
    # What is before an event are the digits of its length: two from 128 on, if it is written as
    # usual. With 127 or 128, that depends on the digits of the next one.
    digits = np.where(np.append(steps, 0) >= 130, 2, 1)
    for unclear in np.flatnonzero(steps == 129)[::-1].tolist():
        digits[unclear] = 3 - digits[unclear + 1]
    starts = begins - digits
    content = np.frombuffer(data, np.uint8)
    first, second = _at(content, starts), _at(content, starts + 1)
    sound = (starts >= 0) & (
        ((digits == 1) & (first < 0x80)) | ((digits == 2) & (first >= 0x80) & (second < 0x80))
    )
    lengths = np.where(digits == 1, first, (first & 0x7F) + (second << 7))
    sound &= _at(content, begins) == 0x08
    good = sound[:-1] & sound[1:] & (begins[:-1] + lengths[:-1] == starts[1:])
    good &= starts[1:] <= room
    bounds = np.concatenate([[-1], np.flatnonzero(~good), [len(good)]])
    for place in np.flatnonzero(np.diff(bounds) > _LEAST).tolist():
        here = slice(bounds[place] + 1, bounds[place + 1])
        yield starts[here], begins[here], int(starts[bounds[place + 1]])


def _mark(data: bytes) -> bytes:
    """What stands behind the type in events of the same peer as the first one in `data`; nothing
    where that doesn't look as usual."""
    begin = 1 + (data[:1] > b"\x7f")
    length = data[begin + 3 : begin + 4]
    if data[begin : begin + 1] != b"\x08" or data[begin + 2 : begin + 3] != b"\x12":
        return b""
    if not b"\0" < length < b"\x80":
        return b""
    mark = data[begin + 2 : begin + 5 + length[0]]
    return mark if mark.endswith(b"\x18") else b""


def _places(data: bytes, mark: bytes) -> Ints:
    """Where `mark` is in `data`; nowhere if it is shorter than a word."""
    if len(data) < len(mark) or len(mark) < _WORD:
        return np.empty(0, dtype=np.int64)
    places = np.flatnonzero(np.frombuffer(data, np.uint8, len(data) - len(mark) + 1) == mark[0])
    words = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
    # Word by word, the last of which may overlap with the one before.
    for at in (*range(0, len(mark) - _WORD, _WORD), len(mark) - _WORD):
        (word,) = struct.unpack_from("<Q", mark, at)
        places = places[words[places + at] == word]
    return places


def _at(content: Any, places: Ints) -> Ints:
    return content[np.maximum(places, 0)].astype(np.int64)
