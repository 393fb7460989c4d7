"""What a trace file holds, and what it should hold and doesn't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.reading import TraceFile, Unreadable, kind_of

MAX_LISTED = 1000
"""Unreadable places and gaps that are kept; further ones are only counted."""

_STEP = 20_000
"""Events between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that were written between two reports of the tracer, and aren't there. Offsets are
    in the decompressed bytes."""

    after: int
    before: int
    events: int


@dataclass(slots=True)
class Check:
    """The findings about one file."""

    format: str
    gzipped: bool
    events: Counter[str] = field(default_factory=Counter)
    """By the submessage that says what they are; `other` for kinds that we don't know."""
    nodes: int = 0
    first: int | None = None
    """The earliest timestamp in the file."""
    last: int | None = None
    """The latest one."""
    unreadable: int = 0
    unreadable_at: list[tuple[int, int, str]] = field(default_factory=list)
    """(offset, size, reason)"""
    missing: int = 0
    gaps: list[Gap] = field(default_factory=list)
    dropped: int = 0
    """Events that the tracer dropped since this file began: its queue was full."""
    failed: int = 0
    """Those that it could not write."""
    error: str = ""
    """Its last error."""
    ended: bool | None = None
    """Whether the tracer ended the file properly; None where it has no reports, as Go's."""

    @property
    def total(self) -> int:
        """Events that were read."""
        return self.events.total()

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be lost."""
        return not (self.unreadable or self.missing or self.dropped or self.failed)


def check(trace: TraceFile, progress: Callable[[int, int], None] | None = None) -> Check:
    """Read `trace` to its end; `progress` gets the bytes read so far, and those of the file."""
    found = Check(trace.format, trace.gzipped)
    nodes: set[bytes] = set()
    books = _Books(found)
    for count, (offset, event) in enumerate(trace):
        if progress is not None and not count % _STEP:
            progress(trace.position, trace.size)
        if isinstance(event, Unreadable):
            found.unreadable += 1
            if len(found.unreadable_at) < MAX_LISTED:
                found.unreadable_at.append((offset, event.size, event.reason))
            continue
        kind = kind_of(event)
        books.count(offset, event, kind)
        found.events[kind or "other"] += 1
        nodes.add(event.peerID)
        if event.HasField("timestamp"):
            at = event.timestamp
            found.first = at if found.first is None else min(found.first, at)
            found.last = at if found.last is None else max(found.last, at)
    found.nodes = len(nodes)
    return found


class _Books:
    """Compares what the tracer says that it wrote with what there is."""

    def __init__(self, found: Check) -> None:
        self._found = found
        self._last: tuple[int, int] | None = None
        """What the last book said was written before it, and its offset."""
        self._since = 0
        self._before: tuple[int, int] | None = None
        """(dropped, failed) when the file began."""

    def count(self, offset: int, event: TraceEvent, kind: str | None) -> None:
        if kind == "header":
            book: TraceEvent.TraceHeader | TraceEvent.TraceReport = event.header
        elif kind == "report":
            book = event.report
        else:
            self._since += 1
            return
        found = self._found
        if found.ended is None:
            found.ended = False
        if self._last is not None:
            missing = book.written - self._last[0] - self._since
            if missing > 0:
                found.missing += missing
                if len(found.gaps) < MAX_LISTED:
                    found.gaps.append(Gap(self._last[1], offset, missing))
        self._last = book.written, offset
        self._since = 1
        if self._before is None:
            self._before = (book.dropped, book.failed) if kind == "header" else (0, 0)
        found.dropped = book.dropped - self._before[0]
        found.failed = book.failed - self._before[1]
        if isinstance(book, TraceEvent.TraceReport):
            found.error = book.error or found.error
            found.ended = found.ended or book.end
