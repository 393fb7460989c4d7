"""Events out of varint-delimited bytes, with the way back after damage.

There are no checksums and no markers in this format: where a length is wrong, everything behind
it seems to be. So an event counts only if the next one, too, begins where it should; and after
damage the stream goes on where the next event stands that could not be there by chance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import TYPED, is_of_another_kind, kind_of
from episub_router.trace.reading.pieces import Hole

MAX_EVENT = 1 << 20
"""Bytes of the largest event that is read; it is what Go's tools allow."""

_LONGEST_PREFIX = 3
"""Bytes of the varint before an event of that size."""

GLIMPSE = 6
"""Bytes that show whether an event begins: length, type, and the tag of the peer id."""

_TIMESTAMP = b"\x18"
"""The tag that follows the peer id."""

CUT_OFF = "the file ends within an event"
TOO_LONG = "no event has such a length"
WRONG_LENGTH = "the length is wrong"
NOT_AN_EVENT = "not a TraceEvent"
CONTRADICTORY = "type and content disagree"

_BEGINNING = re.compile(rb"\x08[\x00-\x0d]\x12[\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """`size` bytes that hold no event, and why. Where the size is 0, bytes that should be here
    are missing from the file."""

    size: int
    reason: str


Record = tuple[int, TraceEvent | Unreadable]
"""What was found, and its offset in the (decompressed) bytes."""


def read_frames(pieces: Iterable[bytes | Hole]) -> Iterator[Record]:
    """All events in order, and whatever lies between them; never raises for bad bytes.

    Offsets and sizes are without gaps and overlaps: each byte belongs to one record, an event's
    length prefix to the event.
    """
    window = _Window(iter(pieces))
    while True:
        yield from _segment(window)
        hole = window.next_segment()
        if hole is None:
            return
        yield window.base, Unreadable(0, hole.reason)


def glance(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Where events start, with their lengths, begin and end, from `at` on, for as long as each is
    followed by what looks like another: its first bytes are all that is looked at."""
    room = len(data) - GLIMPSE
    while at < room:
        length = data[at]
        begin = at + 1
        if length > 0x7F:
            high = data[begin]
            if high > 0x7F:
                return
            length += (high - 1) << 7
            begin += 1
        end = begin + length
        if end > room or data[end + 1 + (data[end] > 0x7F)] != 0x08:
            return
        yield at, begin, end
        at = end


def _segment(window: _Window) -> Iterator[Record]:
    """The records up to the next hole or the end."""
    parse: Callable[[bytes], Any] = TraceEvent.FromString
    typed = TYPED
    at = 0
    while True:
        data, base = window.data, window.base
        # What isn't clear at a glance is left to `_step`.
        for start, begin, end in glance(data, at):
            try:
                event = parse(data[begin:end])
            except DecodeError:
                break
            known = event.HasField("type") and event.HasField(typed[event.type])
            if not known and kind_of(event) is None:
                break
            yield base + start, event
            at = end
        window.drop(at)
        if not window.holds(1):
            return
        here = window.base
        for size, found in _step(window):
            yield here, Unreadable(size, found) if isinstance(found, str) else found
            here += size
        at = here - window.base


def _step(window: _Window) -> list[tuple[int, TraceEvent | str]]:
    """What the window begins with: an event, or a reason why it is none, or one after the
    other, each with its size."""
    here = window.base
    size, found = _frame(window, 0)
    sound = not isinstance(found, str)
    if sound and _begins(window, size):
        return [(size, found)]
    sync = _find(window, 1)
    gap = window.base + sync - here
    if not sound:
        return [(gap, found)]
    # Either what follows is damaged, or this one's length: then it ends elsewhere.
    if gap < size or (window.base == here and _is_whole(window.data[:sync])):
        return [(gap, WRONG_LENGTH)]
    next_one = _frame(window, size)[1] if window.base == here else NOT_AN_EVENT
    return [(size, found), (gap - size, next_one if isinstance(next_one, str) else NOT_AN_EVENT)]


def _frame(window: _Window, at: int) -> tuple[int, TraceEvent | str]:
    """The event at `at` in the window with its size, length included, if there is one."""
    window.holds(at + _LONGEST_PREFIX)
    length, prefix = length_prefix(window.data, at)
    if not prefix:
        return 0, CUT_OFF if not window.holds(at + _LONGEST_PREFIX) else TOO_LONG
    if length > MAX_EVENT:
        return 0, TOO_LONG
    start, end = at + prefix, at + prefix + length
    if not window.holds(end):
        return 0, CUT_OFF
    try:
        event = TraceEvent.FromString(window.data[start:end])
    except DecodeError:
        return 0, NOT_AN_EVENT
    if kind_of(event) is None and not is_of_another_kind(event):
        return 0, CONTRADICTORY
    return end - at, event


def _begins(window: _Window, at: int) -> bool:
    """Whether an event begins at `at`, or nothing at all."""
    if not window.holds(at + 1):
        return True
    window.holds(at + _LONGEST_PREFIX + GLIMPSE)
    length, prefix = length_prefix(window.data, at)
    if prefix and 0 < length <= MAX_EVENT and _BEGINNING.match(window.data, at + prefix):
        return True
    return not isinstance(_frame(window, at)[1], str)


def _find(window: _Window, at: int) -> int:
    """Where in the window, from `at` on, an event begins that isn't there by chance; the end of
    the segment if there is none. What is long passed is dropped from the window."""
    while True:
        match = _BEGINNING.search(window.data, at + 1)
        if match is None:
            at = max(at, len(window.data) - GLIMPSE)
            if at > 2 * MAX_EVENT:
                window.drop(at)
                at = 0
            if not window.more():
                return len(window.data)
            continue
        for prefix in range(1, _LONGEST_PREFIX + 1):
            start = match.start() - prefix
            if start < at:
                break
            length, found = length_prefix(window.data, start)
            if (
                found == prefix
                and length <= MAX_EVENT
                and window.holds(match.start() + length)
                and _is_certain(window.data[match.start() : match.start() + length])
            ):
                return start
        at = match.start()


def length_prefix(
    data: bytes | bytearray, at: int, longest: int = _LONGEST_PREFIX
) -> tuple[int, int]:
    """The varint at `at` and how many bytes it has; (0, 0) if it is cut off, or has more than
    `longest`."""
    value = 0
    for count, byte in enumerate(data[at : at + longest]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, count + 1
    return 0, 0


def _is_certain(body: bytes) -> bool:
    """Whether `body` is an event of a known kind, written the usual way and to its last byte."""
    if not _BEGINNING.match(body):
        return False
    after_peer = 4 + body[3]
    if body[after_peer : after_peer + 1] != _TIMESTAMP:
        return False
    try:
        event = TraceEvent.FromString(body)
    except DecodeError:
        return False
    # The size differs where two events have run into one.
    return kind_of(event) is not None and event.ByteSize() == len(body)


def _is_whole(frame: bytes) -> bool:
    """Whether `frame` is one event behind some length."""
    return any(_is_certain(frame[prefix:]) for prefix in range(1, _LONGEST_PREFIX + 1))


class _Window:
    """The bytes from `base` on, as far as they are needed, up to the next hole.

    At most three times MAX_EVENT are held.
    """

    def __init__(self, pieces: Iterator[bytes | Hole]) -> None:
        self.data = b""
        self.base = 0
        self._pieces = pieces
        self._hole: Hole | None = None
        self._ended = False

    def more(self) -> bool:
        """Get another piece; False at the end of the segment."""
        if self._ended:
            return False
        piece = next(self._pieces, None)
        if not isinstance(piece, bytes):
            self._hole = piece
            self._ended = True
            return False
        self.data += piece
        return True

    def holds(self, size: int) -> bool:
        """Whether there are `size` bytes in this segment."""
        while len(self.data) < size:
            if not self.more():
                return False
        return True

    def drop(self, size: int) -> None:
        """Forget the first `size` bytes."""
        self.data = self.data[size:]
        self.base += size

    def next_segment(self) -> Hole | None:
        """Go on behind the hole at which this segment ended; None at the end of the file."""
        hole, self._hole = self._hole, None
        self._ended = hole is None
        return hole
