"""Traces that nodes send: whole events only, bounded, whatever comes."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from episub_router.pb.trace_pb2 import TraceEvent, TraceEventBatch
from episub_router.trace.collector import (
    MAX_BATCH,
    BatchError,
    BatchReader,
    TraceCollector,
)
from episub_router.trace.output import TraceOutput, encode_frame
from episub_router.trace.params import CollectorParams
from tests.trace.samples import events_of, sample_events

EVENTS = sample_events(60, seed=5)


def sent(*batches: list[TraceEvent]) -> bytes:
    """What a RemoteTracer writes."""
    return gzip.compress(
        b"".join(
            encode_frame(TraceEventBatch(batch=batch).SerializeToString()) for batch in batches
        )
    )


def written(directory: Path, peer: str) -> list[TraceEvent]:
    return events_of(*sorted(directory.glob(f"{peer}.*.pb")))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_batches_come_out_as_they_went_in(size: int) -> None:
    batches = [EVENTS[:1], EVENTS[1:40], [], EVENTS[40:]]
    data = sent(*batches)
    reader = BatchReader()
    found = [
        batch for at in range(0, len(data), size) for batch in reader.feed(data[at : at + size])
    ]
    assert found == batches
    assert list(reader.feed(b"what follows the end is nobody's")) == []


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        gzip.compress(b"\xff" * 9),
        gzip.compress(b"\x80\x80\x80\x03" + bytes(20)),
        gzip.compress(b"\x03\xff\xff\xff"),
    ],
    # What gzip makes has the time in it, and the name of a test may not.
    ids=["not compressed", "no length", "too long", "no batch"],
)
def test_what_is_no_batch_ends_the_stream(data: bytes) -> None:
    with pytest.raises(BatchError):
        list(BatchReader().feed(data))


def test_a_bomb_is_not_held() -> None:
    """Of what expands to much more than was sent, no more is held than one batch may have."""
    reader = BatchReader()
    body = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    data = body.compress(b"\x80\x80\x80\x01" + bytes(1 << 20)) + body.flush(zlib.Z_SYNC_FLUSH)
    assert list(reader.feed(data)) == []
    assert (1 << 20) < len(reader._held) < MAX_BATCH
    data = body.compress(bytes(MAX_BATCH)) + body.flush()
    with pytest.raises(BatchError):
        list(reader.feed(data))
    assert len(reader._held) < MAX_BATCH


class Stream:
    """A stream of py-libp2p that has `data`, and then ends, or fails."""

    def __init__(self, peer: bytes, data: bytes, *, fails: bool = False) -> None:
        from libp2p.peer.id import ID

        self.muxed_conn = SimpleNamespace(peer_id=ID(peer))
        self.data, self.fails = data, fails
        self.ended = ""

    async def read(self, size: int) -> bytes:
        if not self.data and self.fails:
            raise ConnectionError
        data, self.data = self.data[:size], self.data[size:]
        return data

    async def close(self) -> None:
        self.ended = "close"

    async def reset(self) -> None:
        self.ended = "reset"


async def test_each_peer_speaks_for_itself(tmp_path: Path) -> None:
    """Streams that break cost nothing that came before."""
    from libp2p.peer.id import ID

    own, other = b"\x00\x01a", b"\x00\x01b"
    events = [TraceEvent(type=TraceEvent.JOIN, peerID=own, timestamp=at) for at in range(1, 9)]
    forged = TraceEvent(type=TraceEvent.JOIN, peerID=other, timestamp=1)
    collector = TraceCollector(tmp_path / "new")
    streams: list[Any] = [
        Stream(own, sent(events[:3], [forged, *events[3:5]])),
        Stream(own, sent(events[5:]), fails=True),
        Stream(other, b"\x00" * 99),
    ]
    for stream in streams:
        await collector.handle(stream)
    assert [stream.ended for stream in streams] == ["close", "reset", "reset"]
    counts = collector.counts
    assert (counts.streams, counts.events, counts.foreign, counts.broken) == (3, 8, 1, 2)
    collector.close()
    (path,) = (tmp_path / "new").iterdir()
    assert path.name == f"{ID(own)}.00000.pb"
    assert path.read_bytes() == b"".join(encode_frame(e.SerializeToString()) for e in events)


def test_files_are_finished_when_large_or_old(tmp_path: Path) -> None:
    now = 0.0
    params = CollectorParams(max_size=2000, max_age=10.0, max_peers=2)
    collector = TraceCollector(tmp_path, params, clock=lambda: now)
    collector.take("large", EVENTS)
    assert list(tmp_path.glob("*.tmp")) == []
    collector.take("slow", EVENTS[:1])
    now = 9.0
    collector.take("late", EVENTS[:2])
    collector.rotate()
    assert list(tmp_path.glob("slow.*")) == [tmp_path / "slow.pb.tmp"]
    collector.take("one too many", EVENTS[:5])
    assert collector.counts.refused == 5
    now = 10.0
    collector.rotate()
    assert {path.name for path in tmp_path.iterdir()} == {
        "large.00000.pb", "slow.00000.pb", "late.pb.tmp",
    }  # fmt: skip
    # As if it had been killed: the next one finishes what it finds.
    collector = TraceCollector(tmp_path, params)
    collector.take("late", EVENTS[2:4])
    collector.close()
    assert [path.name for path in sorted(tmp_path.glob("late*"))] == [
        "late.00000.pb", "late.00001.pb",
    ]  # fmt: skip
    assert written(tmp_path, "late") == EVENTS[:4]
    assert written(tmp_path, "large") == EVENTS


def test_a_full_disk_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = TraceCollector(tmp_path)
    collector.take("a", EVENTS[:2])

    def full(*given: object) -> int:
        raise OSError(28, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(TraceOutput, "append", full)
        collector.take("a", EVENTS[2:5])
    collector.take("a", EVENTS[5:6])
    collector.close()
    assert (collector.counts.events, collector.counts.failed) == (3, 3)
    assert written(tmp_path, "a") == [*EVENTS[:2], EVENTS[5]]
    assert os.listdir(tmp_path) == ["a.00000.pb"]
