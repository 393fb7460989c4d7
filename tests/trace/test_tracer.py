"""The writing side: nothing blocks, nothing is lost without being counted, files are whole."""

from __future__ import annotations

import io
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.params import TracerParams
from episub_router.trace.tracer import Tracer
from tests import children
from tests.trace.samples import checked, events_of, good, records_of, sample_events

EVENTS = sample_events(300, seed=2)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what the tracer's thread does, which gives no event for it."""
    while not condition():
        time.sleep(0.001)


def has_written(tracer: Tracer, count: int) -> bool:
    return tracer.stats.written >= count


def read(path: Path) -> list[TraceEvent]:
    """The events of a file without those of the tracer itself."""
    return [e for e in events_of(path) if not (e.HasField("header") or e.HasField("report"))]


@pytest.mark.parametrize("name", ["t.pb", "t", "t.pb.gz", "t.json", "t.jsonl.gz"])
def test_what_is_emitted_is_in_the_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with Tracer(path, run="experiment", name="node", region="eu") as tracer:
        tracer.belongs_to(b"me", "episub")
        for event in EVENTS:
            tracer.emit(event)
    assert read(path) == EVENTS
    found = checked(path)
    assert found.complete
    assert found.ended
    assert found.gzipped == name.endswith(".gz")
    assert found.format == ("json" if "json" in name else "pb")
    first, *_, last = events_of(path)
    assert (first.header.run, first.header.name, first.header.router) == (
        "experiment",
        "node",
        "episub",
    )
    assert (first.header.region, first.peerID) == ("eu", b"me")
    assert last.report.closed
    assert last.report.written == len(EVENTS) + 1 == tracer.stats.written - 1


def test_events_come_to_the_disk_while_the_node_runs(tmp_path: Path) -> None:
    path = tmp_path / "t.pb.gz"
    with Tracer(path, params=TracerParams(flush_interval=0.01)) as tracer:
        tracer.emit(EVENTS[0])
        wait_until(lambda: read(path) == EVENTS[:1])


def test_files_rotate_by_size_and_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "node.pb"
    params = TracerParams(max_size=5000, flush_interval=0.001)
    with Tracer(path, params=params) as tracer:
        for count, event in enumerate(EVENTS, 1):
            tracer.emit(event)
            if count % 20 == 0:
                wait_until(partial(has_written, tracer, count))
    files = [*sorted(tmp_path.glob("node.0*.pb")), path]
    assert len(files) > 2
    assert [file.name for file in files[:2]] == ["node.00000.pb", "node.00001.pb"]
    assert [event for file in files for event in read(file)] == EVENTS
    for part, file in enumerate(files):
        found = checked(file)
        assert found.complete
        assert found.ended
        assert events_of(file)[0].header.part == part


def test_files_rotate_by_age(tmp_path: Path) -> None:
    params = TracerParams(max_age=0.02, flush_interval=0.005)
    with Tracer(tmp_path / "node.pb", params=params) as tracer:
        tracer.emit(EVENTS[0])
        wait_until(lambda: any(tmp_path.glob("node.0*.pb")))
        tracer.emit(EVENTS[1])
    assert read(tmp_path / "node.00000.pb") == EVENTS[:1]


def test_an_older_file_is_kept(tmp_path: Path) -> None:
    for event in EVENTS[:3]:
        with Tracer(tmp_path / "node.pb.gz") as tracer:
            tracer.emit(event)
    assert read(tmp_path / "node.00000.pb.gz") == EVENTS[:1]
    assert read(tmp_path / "node.00001.pb.gz") == EVENTS[1:2]
    assert read(tmp_path / "node.pb.gz") == EVENTS[2:3]


@pytest.mark.parametrize(
    "params",
    [
        TracerParams(queue_events=10, flush_interval=60),
        TracerParams(queue_bytes=len(EVENTS[0].SerializeToString()) * 10, flush_interval=60),
    ],
)
def test_what_the_queue_has_no_room_for_is_counted_in_the_trace(
    params: TracerParams, tmp_path: Path
) -> None:
    path = tmp_path / "t.pb"
    with Tracer(path, params=params) as tracer:
        for _ in range(25):
            tracer.emit(EVENTS[0])
        assert tracer.stats.dropped == 15
    assert len(read(path)) == 10
    found = checked(path)
    assert found.dropped == 15
    assert not found.complete


def test_an_event_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "t.pb"
    huge = TraceEvent(
        type=TraceEvent.JOIN, peerID=b"me", timestamp=1, join={"topic": "x" * (1 << 20)}
    )
    with Tracer(path) as tracer:
        tracer.emit(EVENTS[0])
        tracer.emit(huge)
    assert read(path) == EVENTS[:1]
    assert checked(path).failed == 1


def test_a_file_that_can_t_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tracer(tmp_path / "none" / "t.pb")


@pytest.mark.parametrize("name", ["t.pb", "t.pb.gz", "t.json"])
def test_a_full_disk_costs_what_it_has_no_room_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half event stays behind; the trace goes on when there is room, and tells of the loss."""
    path = tmp_path / name
    room = threading.Event()
    room.set()

    class OnDisk(io.FileIO):
        def write(self, data: Any) -> int:
            if room.is_set():
                return super().write(data)
            # A full disk takes part of the data.
            super().write(data[: len(data) // 2])
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda self, mode, buffering: OnDisk(self, mode))
        tracer = Tracer(path, params=TracerParams(flush_interval=0.001))
    with tracer:
        tracer.emit(EVENTS[0])
        wait_until(lambda: tracer.stats.written == 2)
        room.clear()
        tracer.emit(EVENTS[1])
        wait_until(lambda: tracer.stats.failed == 1)
        room.set()
        tracer.emit(EVENTS[2])
    assert read(path) == [EVENTS[0], EVENTS[2]]
    found = checked(path)
    assert (found.failed, found.unreadable, found.missing) == (1, 0, 0)
    assert "No space left" in found.error


def test_the_system_s_own_limit_is_survived(tmp_path: Path) -> None:
    """A real failing write, in a process of its own, whose files may have 4 KiB."""
    script = f"""
import sys
from episub_router.trace.tracer import Tracer
from episub_router.trace.params import TracerParams
from tests.trace.samples import sample_events
with Tracer({str(tmp_path / "t.pb")!r}, params=TracerParams(flush_interval=0.001)) as tracer:
    for event in sample_events(200):
        before = tracer.stats
        tracer.emit(event)
        while tracer.stats == before:
            pass
stats = tracer.stats
assert stats.failed > 0 and "too large" in stats.error, stats
print(stats.written)
"""
    done = children.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert "loses events" in done.stderr
    records = records_of(tmp_path / "t.pb")
    assert len(records) == len(good(records)) == int(done.stdout)


def test_damage_to_a_trace_shows_as_a_gap_too(tmp_path: Path) -> None:
    path = tmp_path / "t.pb"
    with Tracer(path) as tracer:
        for event in EVENTS[:50]:
            tracer.emit(event)
    data = path.read_bytes()
    starts = [at for at, _ in records_of(path)]
    path.write_bytes(data[: starts[20]] + data[starts[23] :])
    found = checked(path)
    assert (found.unreadable, found.missing) == (0, 3)
    assert found.gaps[0].events == 3
    assert not found.complete


def test_what_comes_after_the_end_is_ignored(tmp_path: Path) -> None:
    tracer = Tracer(tmp_path / "t.pb")
    tracer.close()
    tracer.emit(EVENTS[0])
    tracer.close()
    assert tracer.stats.written == 0


@pytest.mark.parametrize("field", ["queue_events", "max_size", "flush_interval"])
def test_parameters_are_checked(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        TracerParams(**{field: 0})
