"""The collector's end of `/libp2p/pubsub/tracer/1.0.0`, which the RemoteTracer of go-libp2p-pubsub
sends to: trace files in a directory, which the pipeline's stream follows.

A stream is one gzip stream of `TraceEventBatch` messages, each behind its length as an unsigned
varint. Every peer has a file of its own; one that is being written ends in `.tmp`.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from episub_router.pb.trace_pb2 import TraceEvent, TraceEventBatch
from episub_router.trace.output import TraceOutput, finished
from episub_router.trace.params import CollectorParams
from episub_router.trace.reading.frames import length_prefix

if TYPE_CHECKING:
    from libp2p.abc import INetStream
    from libp2p.peer.id import ID

PROTOCOL_ID = "/libp2p/pubsub/tracer/1.0.0"

MAX_BATCH = 1 << 22
"""Bytes of the largest batch that is read; what go-libp2p-pubsub-tracer's collector allows."""

_PIECE = 1 << 16
"""Bytes read at once, and decompressed at once."""

_LONGEST_PREFIX = 4
"""Bytes of the varint before a batch of that size."""

_WRITING = ".pb.tmp"


class BatchError(ValueError):
    """A stream that has something else in it than batches."""


class BatchReader:
    """The events in the bytes of one stream, as they come. At most a batch and a piece are held."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[list[TraceEvent]]:
        """The batches that `data` completes. After BatchError there is no way back."""
        while True:
            try:
                piece = self._inflater.decompress(data, _PIECE)
            except zlib.error as error:
                raise BatchError(str(error)) from error
            self._held += piece
            while (batch := self._take()) is not None:
                yield batch
            data = self._inflater.unconsumed_tail
            # What is decompressed already may wait inside, all bytes taken.
            if not data and not piece:
                return

    def _take(self) -> list[TraceEvent] | None:
        length, start = length_prefix(self._held, 0, _LONGEST_PREFIX)
        if not start and len(self._held) >= _LONGEST_PREFIX:
            raise BatchError("the length of a batch is too long")
        if length > MAX_BATCH:
            raise BatchError(f"a batch of {length} bytes")
        if not start or len(self._held) < start + length:
            return None
        body = bytes(self._held[start : start + length])
        del self._held[: start + length]
        try:
            return list(TraceEventBatch.FromString(body).batch)
        except DecodeError as error:
            raise BatchError(str(error)) from error


@dataclass(slots=True)
class CollectorCounts:
    """What a collector did so far."""

    streams: int = 0
    events: int = 0
    foreign: int = 0
    """Events that name another peer than the one that sent them; not written."""
    broken: int = 0
    """Streams that didn't end as they should, or had something else in them than batches."""
    refused: int = 0
    """Events of more peers than `max_peers`."""
    failed: int = 0
    """Events that couldn't be written."""


@dataclass(slots=True)
class TraceCollector:
    """Writes what peers send to `directory`, which is made if it isn't there, a file a peer; what
    an earlier collector left there unfinished is finished first.

    `handle` is a stream handler; `rotate` is to be called now and then, and `close` at the end.
    Raises OSError for a directory that can't be written to.
    """

    directory: Path
    params: CollectorParams = field(default_factory=CollectorParams)
    clock: Callable[[], float] = time.monotonic
    counts: CollectorCounts = field(default_factory=CollectorCounts)
    _growing: dict[str, TraceOutput] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self.directory.glob(f"*{_WRITING}")):
            _finish(path)

    async def handle(self, stream: INetStream) -> None:
        """Take what comes in `stream` until it ends, in whatever way."""
        self.counts.streams += 1
        reader = BatchReader()
        # An exception out of a stream handler takes the whole host down.
        try:
            while data := await stream.read(_PIECE):
                for batch in reader.feed(data):
                    self._take_of(stream.muxed_conn.peer_id, batch)
            await stream.close()
        except Exception:
            self.counts.broken += 1
            with suppress(Exception):
                await stream.reset()

    def _take_of(self, sender: ID, batch: list[TraceEvent]) -> None:
        own = [event for event in batch if event.peerID == sender.to_bytes()]
        self.counts.foreign += len(batch) - len(own)
        if own:
            self.take(str(sender), own)

    def take(self, peer: str, events: list[TraceEvent]) -> None:
        """Write the `events` of `peer`, or count them."""
        if peer not in self._growing and len(self._growing) >= self.params.max_peers:
            self.counts.refused += len(events)
            return
        try:
            if peer not in self._growing:
                path = self.directory / f"{peer}{_WRITING}"
                self._growing[peer] = TraceOutput(path, self.clock)
            self._growing[peer].append([event.SerializeToString() for event in events])
        except OSError:
            self.counts.failed += len(events)
            return
        self.counts.events += len(events)
        self._end_complete(peer)

    def rotate(self) -> None:
        """Finish the files that are old enough."""
        self._end_complete(*self._growing)

    def close(self) -> None:
        """Finish all files."""
        for peer in list(self._growing):
            self._end(peer)

    def _end_complete(self, *peers: str) -> None:
        for peer in peers:
            if self._growing[peer].is_complete(self.params):
                self._end(peer)

    def _end(self, peer: str) -> None:
        self._growing.pop(peer).close()
        _finish(self.directory / f"{peer}{_WRITING}")


def _finish(path: Path) -> None:
    os.rename(path, finished(path.with_name(path.name.removesuffix(_WRITING) + ".pb")))
