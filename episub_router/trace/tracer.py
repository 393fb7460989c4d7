"""Events to files, off the event loop.

What an event costs where it happens is its serialisation and a place in a queue; a thread
writes. Nothing that goes wrong with a file stops the node: it is counted, and reported in
the trace itself as soon as that can be written again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import made
from episub_router.trace.output import TraceOutput
from episub_router.trace.params import TracerParams
from episub_router.trace.reading.frames import MAX_EVENT
from episub_router.trace.software import software

logger = logging.getLogger(__name__)

_WAKE_AT = 1024
"""Events in the queue for which the thread doesn't wait until the next flush."""


@dataclass(frozen=True, slots=True)
class TracerStats:
    """A tracer's counters: events by what became of them."""

    written: int = 0
    dropped: int = 0
    """The queue was full."""
    failed: int = 0
    """They could not be written, or were no events."""
    error: str = ""
    """The last one."""


class Tracer:
    """Writes the events of one node to `path`; to be closed, or used as a context manager.

        with Tracer("node.pb") as tracer:
            router = EpisubRouter(tracer=tracer)

    The name gives the format: `.pb` or anything, `.json`, `.jsonl` or `.ndjson`, and `.gz`
    behind any of them. A file that has reached its size or age gets a number (`node.00000.pb`);
    one that is there already is kept that way. `run` names the experiment, `name` the node,
    `region` where it is.

    Raises OSError where the file can't be opened; nothing else ever does.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        run: str = "",
        name: str = "",
        region: str = "",
        params: TracerParams | None = None,
    ) -> None:
        self._path = Path(path)
        self._params = params or TracerParams()
        self._run_name = run
        self._name = name
        self._region = region
        self._router = ""
        self._peer = b""
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._written = self._dropped = self._failed = 0
        self._error = ""
        self._part = 0
        self._reported = TracerStats()
        self._before = TracerStats()
        self._report_due = time.monotonic() + self._params.report_interval
        self._output: TraceOutput | None = TraceOutput(self._path)
        self._opened_at = time.time_ns()
        self._headed = False
        self._thread = threading.Thread(target=self._work, name="tracer", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> TracerStats:
        """The counters so far."""
        return TracerStats(self._written, self._dropped, self._failed, self._error)

    def belongs_to(self, peer: bytes, router: str) -> None:
        """Whose trace it is, for the header of its files. The first one counts."""
        if not self._peer:
            self._peer, self._router = peer, router

    def emit(self, event: TraceEvent) -> None:
        """Queue `event`, or count it as dropped."""
        data = event.SerializeToString()
        if len(data) > MAX_EVENT:
            self.fail(ValueError(f"an event of {len(data)} bytes, which no reader accepts"))
            return
        with self._lock:
            if self._closing:
                return
            if (
                len(self._queue) >= self._params.queue_events
                or self._queued + len(data) > self._params.queue_bytes
            ):
                self._dropped += 1
                return
            self._queue.append(data)
            self._queued += len(data)
            many = len(self._queue) == _WAKE_AT
        if many:
            self._wake.set()

    def fail(self, error: Exception) -> None:
        """Count an event that could not be made."""
        self._count_failure(1, error)

    def close(self) -> None:
        """Write what is queued and end the trace. Later events are ignored."""
        with self._lock:
            self._closing = True
        self._wake.set()
        self._thread.join()

    def __enter__(self) -> Tracer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # In the thread

    def _work(self) -> None:
        closing = False
        while not closing:
            self._wake.wait(self._params.flush_interval)
            self._wake.clear()
            with self._lock:
                closing = self._closing
                events, self._queue = list(self._queue), deque()
                self._queued = 0
            if events:
                self._write(events)
            now = time.monotonic()
            if now >= self._report_due and not closing:
                self._report_due = now + self._params.report_interval
                if self.stats != self._reported:
                    self._write([self._report()])
                    self._reported = self.stats
            output = None if closing else self._output
            if output is not None and output.size and output.is_complete(self._params):
                self._rotate(output)
        if self._output is not None:
            if self._headed:
                self._write([self._report(end=True, closed=True)])
            self._guarded(self._output.close)

    def _write(self, events: list[bytes]) -> None:
        try:
            if self._output is None:
                self._output = TraceOutput(self._path)
                self._opened_at = time.time_ns()
                self._headed = False
            if not self._headed:
                self._output.append([self._header()])
                self._written += 1
                self._headed = True
            self._output.append(events)
            self._written += len(events)
        except Exception as error:
            self._count_failure(len(events), error)

    def _rotate(self, output: TraceOutput) -> None:
        self._write([self._report(end=True)])
        self._guarded(output.rotate)
        self._output = None
        self._part += 1
        self._before = self.stats

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._count_failure(0, error)

    def _count_failure(self, events: int, error: Exception) -> None:
        if not self._error:
            logger.warning("the trace %s loses events: %s", self._path, error)
        self._failed += events
        self._error = str(error)

    def _header(self) -> bytes:
        content = {
            "software": software(),
            "part": self._part,
            "written": self._written,
            "dropped": self._before.dropped,
            "failed": self._before.failed,
            "run": self._run_name or None,
            "name": self._name or None,
            "region": self._region or None,
            "router": self._router or None,
        }
        return made("header", self._peer, self._opened_at, content).SerializeToString()

    def _report(self, *, end: bool = False, closed: bool = False) -> bytes:
        said = {**asdict(self.stats), "end": end or None, "closed": closed or None}
        said["error"] = said["error"] or None
        return made("report", self._peer, time.time_ns(), said).SerializeToString()
