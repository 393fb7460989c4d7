"""Streams: the same totals whatever is killed, late events counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import children
from tests.hosts import PATIENCE
from tests.pipeline.files import SECOND, START, delimited, node_events, write_star
from tests.pipeline.records import put_records
from tests.pipeline.reports import gathered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from episub_router.pipeline.stream import Progress


def drain(
    spark: SparkSession,
    root: Path,
    directory: Path,
    run: str = "r",
    lateness: float = 30.0,
    files_per_batch: int = 1_000,
) -> list[Progress]:
    """Take all that is in `directory`."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.stream import stream

    batches: list[Progress] = []
    stream(
        Lake(spark, str(root)), str(directory), run, AnswerParams(window=5.0, lateness=lateness),
        once=True, files_per_batch=files_per_batch, on_batch=batches.append,
    )  # fmt: skip
    return batches


@pytest.mark.spark
def test_the_watermark_waits_for_files_that_are_rotated_hourly() -> None:
    """Also for nodes without any file so far; and one wrong time doesn't move it for ever."""
    pytest.importorskip("pyspark")
    from episub_router.pipeline.lake import Entry
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.stream import _watermark
    from episub_router.trace.params import TracerParams

    params = AnswerParams()
    times = [None, START, START + 9 * SECOND, START + 2**57]
    files = [Entry("b", "r", "f", "d", 1, "pb", 1, 1, 0, latest=time) for time in times]
    found = _watermark(files, params)
    assert found == START + 9 * SECOND - int(params.lateness * SECOND)
    assert found < START + 9 * SECOND - int(TracerParams().max_age * SECOND)
    assert _watermark(files[:1], params) is None


@pytest.mark.spark
def test_late_events_are_kept_apart_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import Tables
    from episub_router.pipeline.stream import live

    lake, traces = Lake(spark, str(tmp_path / "lake")), tmp_path / "traces"
    count = write_star(traces, messages=20)
    (first,) = drain(spark, Path(lake.root), traces, lateness=2.0)
    assert (sum(entry.events for entry in first.files), first.watermark) == (count, None)
    before = {row["window"]: row for row in live(lake, "spread", ["r"])}
    latest = max(entry.latest or 0 for entry in first.files)
    events = node_events(3, messages=20)
    for event in events:
        event.timestamp += 3
    late = sum(event.timestamp < latest - 2 * SECOND for event in events)
    assert 0 < late < len(events)
    (traces / "late.pb").write_bytes(delimited(events))
    # The same content under another name is nothing new.
    (traces / "copy.pb").write_bytes((traces / "node-1.pb").read_bytes())
    (second,) = drain(spark, Path(lake.root), traces, lateness=2.0)
    (entry,) = second.files
    assert (entry.events, entry.late) == (len(events), late)
    assert second.watermark == latest - 2 * SECOND
    assert lake.records(["r"]).where("status = 'event'").count() == count + len(events)
    assert lake.events(["r"]).count() == count + len(events) - late
    # Answers that are made of everything have them.
    tables = Tables({"records": lake.records(["r"])}, AnswerParams())
    assert tables("events").count() == count + len(events)
    after = {row["window"]: row for row in live(lake, "spread", ["r"])}
    assert set(after) == set(before)
    closed = min(before)
    assert closed + 5 * SECOND + 10 * SECOND < second.watermark
    assert after[closed] == before[closed]
    assert sum(row["messages"] for row in after.values()) == 20
    assert sorted(row["index"] for row in live(lake, "messages", ["r"])) == list(range(20))


@pytest.mark.spark
def test_what_is_being_written_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    """Also where nothing else is there, and where what comes first can't be read."""
    traces, lake = tmp_path / "traces", tmp_path / "lake"
    traces.mkdir()
    under_way = traces / "node-1.pb.tmp"
    under_way.write_bytes(delimited(node_events(1)))
    assert drain(spark, lake, traces) == []
    (traces / "junk.pb").write_bytes(b"\xff" * 9)
    (junk,) = drain(spark, lake, traces)
    assert [(entry.events, entry.quarantined) for entry in junk.files] == [(0, 1)]
    under_way.rename(traces / "node-1.pb")
    (whole,) = drain(spark, lake, traces)
    assert [entry.events for entry in whole.files] == [len(node_events(1))]


@pytest.mark.spark
def test_everything_once_in_a_run_of_whatever_name(spark: SparkSession, tmp_path: Path) -> None:
    """One content under two names in one batch, a batch that is repeated, and an old file."""
    from episub_router.pipeline.bronze.compaction import compact
    from episub_router.pipeline.lake import Lake

    traces, root, name = tmp_path / "traces", tmp_path / "lake", "a/b={c}"
    count = write_star(traces, nodes=2)
    (traces / "copy.pb").write_bytes((traces / "node-1.pb").read_bytes())
    (first,) = drain(spark, root, traces, run=name)
    assert [Path(entry.file).name for entry in first.files] == ["copy.pb", "node-0.pb"]
    lake = Lake(spark, str(root))
    assert lake.events([name]).count() == count
    written = sorted(Path(root, "bronze").rglob("*.parquet"))
    assert drain(spark, root, traces, run=name) == []
    # One that was killed before all answers of the batch were there.
    lake.put_live_progress(name, {})
    (repeated,) = drain(spark, root, traces, run=name)
    assert (repeated.number, repeated.files) == (first.number, first.files)
    assert sorted(Path(root, "bronze").rglob("*.parquet")) == written
    assert lake.events([name]).count() == count
    old = traces / "node-2.pb"
    old.write_bytes(delimited(node_events(2)))
    os.utime(old, (old.stat().st_mtime - 400 * 86400,) * 2)
    (third,) = drain(spark, root, traces, run=name)
    assert [Path(entry.file).name for entry in third.files] == ["node-2.pb"]
    # What has been put together is known, and belongs to the time before the next batch.
    for node in (3, 4):
        (traces / f"node-{node}.pb").write_bytes(delimited(node_events(node)))
        drain(spark, root, traces, run=name)
    before = lake.events([name]).count()
    assert len(compact(lake)) == 1
    assert len({entry.batch for entry in lake.manifest()}) == 3
    (traces / "again.pb").write_bytes((traces / "node-1.pb").read_bytes())
    (traces / "node-5.pb").write_bytes(delimited(node_events(5)))
    (last,) = drain(spark, root, traces, run=name)
    assert last.watermark is not None
    assert [Path(entry.file).name for entry in last.files] == ["node-5.pb"]
    assert lake.events([name]).count() == before + len(node_events(5))


@pytest.mark.spark
def test_exchanges_of_a_state_are_those_of_its_events(spark: SparkSession, tmp_path: Path) -> None:
    """Also where an RPC named a message twice: that end can't be matched."""
    from episub_router.pipeline.facts.clocks import exchanges
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.state import exchanges_of, reduced

    traces, lake = tmp_path / "traces", Lake(spark, str(tmp_path / "lake"))
    traces.mkdir()
    for node in range(2):
        events = node_events(node, 2, messages=6)
        if node == 0:
            sent = next(event for event in events if event.HasField("sendRPC"))
            sent.sendRPC.meta.messages.append(sent.sendRPC.meta.messages[0])
        (traces / f"node-{node}.pb").write_bytes(delimited(events))
        drain(spark, Path(lake.root), traces)
    wanted = exchanges(lake.events(["r"])).collect()
    first, second = sorted({entry.batch for entry in lake.manifest()})

    def found(one: int, other: int) -> list[Any]:
        rows = reduced(lake.events(["r"], {first}), one)
        rows = rows.unionByName(reduced(lake.events(["r"], {second}), other))
        return sorted(exchanges_of(rows, max(one, other)).collect())

    assert found(1, 1) == sorted(wanted)
    # Six each way, but for the one that was named twice.
    assert len(wanted) == 2 * 6 - 1
    # Of a sample, both ends of an exchange are there or neither.
    some = found(2, 1)
    assert 0 < len(some) < len(wanted)
    assert {*some} < {*wanted}
    assert some == found(1, 2) == found(2, 2)


def write_parts(directory: Path, parts: int, messages: int) -> int:
    """The traces of a star of three nodes, a file for each of some equal parts of the time; how
    many events they have."""
    events = [event for node in range(3) for event in node_events(node, 3, messages)]
    events.sort(key=lambda event: event.timestamp)
    begin, end = events[0].timestamp, events[-1].timestamp + 1
    directory.mkdir()
    for part in range(parts):
        low, high = (begin + (end - begin) * edge // parts for edge in (part, part + 1))
        chosen = [event for event in events if low <= event.timestamp < high]
        (directory / f"part-{part}.pb").write_bytes(delimited(chosen))
        # The order in which the stream takes them.
        os.utime(directory / f"part-{part}.pb", (1_700_000_000 + part,) * 2)
    return len(events)


@pytest.mark.spark
@pytest.mark.parametrize(
    "engine", ["sail", pytest.param("spark", marks=pytest.mark.spark_processes)]
)
@pytest.mark.timeout(900)
def test_a_killed_stream_goes_on_where_it_was(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Windows close meanwhile; what was answered batch by batch is what all events give, and what
    is kept from batch to batch doesn't grow."""
    pytest.importorskip("pysail")
    session = request.getfixturevalue("jvm" if engine == "spark" else "spark")
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.stream import live

    traces, root, lateness = tmp_path / "traces", tmp_path / "lake", 2.0
    count = write_parts(traces, 4, messages=40)
    lake = Lake(session, str(root))
    command = [
        sys.executable, "-m", "episub_router", "pipeline", "stream", str(traces), "--run", "r",
        "--lake", str(root), "--files", "1", "--window", "5", "--lateness", str(lateness), "--once",
        "--engine", engine,
    ]  # fmt: skip
    errors = tmp_path / "errors"
    with errors.open("wb") as log, children.child(
        command, stdout=subprocess.DEVNULL, stderr=log,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as process:  # fmt: skip
        while not lake.manifest():
            # Nothing tells when a batch has been taken: its answers are to be made yet.
            with suppress(subprocess.TimeoutExpired):
                assert process.wait(0.05) is None, errors.read_text()
        # In the middle of the first one, a JVM and all.
        children.kill(process)
    (taken,) = lake.manifest()
    written = {path: path.stat().st_mtime_ns for path in (root / "bronze").rglob("*.parquet")}
    told = drain(session, root, traces, lateness=lateness, files_per_batch=1)
    assert [progress.number for progress in told] == [0, 1, 2, 3]
    assert told[0].files == (taken,)
    assert {path: path.stat().st_mtime_ns for path in written} == written
    entries = lake.manifest()
    assert len(entries) == 4
    assert sum(entry.events for entry in entries) == count
    assert sum(entry.late for entry in entries) == 0
    assert lake.events(["r"]).count() == count
    wanted = answered(session, tmp_path / "whole", traces)
    assert sorted(live(lake, "spread", ["r"]), key=itemgetter("window")) == wanted
    assert sum(row["deliveries"] for row in wanted) == 40 * 2
    # Two windows of 5 s, and the 10 s that messages are given: what the first batch had is over.
    assert [batch["batch"] for batch in lake.live_progress("r")["recent"]] == [1, 2, 3]
    there = {
        name: {int(path.name[-8:]) for path in (root / "live" / name / "run=r").iterdir()}
        for name in ("recent", "state")
    }
    assert there == {"recent": {1, 2, 3}, "state": {2, 3}}


def answered(session: SparkSession, root: Path, traces: Path) -> list[dict[str, Any]]:
    """The windows of the table `spread` of all that is at `traces`, ingested as a whole."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer

    whole = Lake(session, str(root))
    ingest(session, whole, [str(traces)], "r")
    for _ in answer(whole, AnswerParams(window=5.0)):
        pass
    rows = whole.look("gold", "spread").to_table().to_pylist()
    return sorted((r for r in rows if r["window"] is not None), key=itemgetter("window"))


@pytest.mark.spark
def test_a_report_shows_what_only_a_stream_has_answered(
    spark: SparkSession, tmp_path: Path, episub: Callable[[list[str]], int]
) -> None:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.report.tables import headline

    traces, lake = tmp_path / "traces", Lake(spark, str(tmp_path / "lake"))
    write_parts(traces, 2, messages=40)
    drain(spark, Path(lake.root), traces)
    made = gathered(lake, ["r"])
    (topic,) = made.topics
    assert "this is what its stream has answered so far" in headline(made)
    assert len(topic.messages) == 40
    answered(spark, tmp_path / "whole", traces)
    (wanted,) = gathered(Lake(None, str(tmp_path / "whole")), ["r"]).topics
    # When the run began, before its first message, a stream doesn't keep.
    apart = wanted.messages[0]["after"]
    assert [row | {"after": row["after"] + apart} for row in topic.messages] == wanted.messages
    unknown = {"latency_p50", "latency_p99", "late", "on_time"}
    known = {name for name, value in topic.figures.items() if value is not None}
    assert {name: topic.figures[name] for name in known} == pytest.approx(
        {name: wanted.figures[name] for name in known}
    )
    assert {"missing", "reliability", "rmr", "latency_max", "stability"} <= known
    assert unknown.isdisjoint(known)
    out = tmp_path / "page.html"
    assert episub(["report", "r", "--lake", lake.root, "--out", str(out)]) == 0
    assert 'id="timeline"' in out.read_text()


@pytest.mark.spark
def test_a_stream_of_an_earlier_build_is_answered_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It kept something else from batch to batch: windows that it had open are closed by now."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.stream import live

    traces, lake = tmp_path / "traces", Lake(spark, str(tmp_path / "lake"))
    write_parts(traces, 4, messages=40)
    last = traces / "part-3.pb"
    last.rename(tmp_path / "later.pb")
    drain(spark, Path(lake.root), traces, lateness=2.0, files_per_batch=1)
    lake.put_live_progress("r", {"batch": 2})
    (tmp_path / "later.pb").rename(last)
    drain(spark, Path(lake.root), traces, lateness=2.0)
    wanted = answered(spark, tmp_path / "whole", traces)
    assert sorted(live(lake, "spread", ["r"]), key=itemgetter("window")) == wanted


@pytest.mark.spark
def test_what_a_stream_has_answered_is_shown(
    spark: SparkSession,
    tmp_path: Path,
    episub: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Windows that are closed, of all batches, and those that are open, of the last one."""
    from episub_router.pipeline.lake import Lake

    lake = Lake(spark, str(tmp_path / "lake"))
    happened = time.time_ns() - 7 * SECOND
    put_records(lake, {"r": [{"event": "join", "peer": "p", "time": happened, "topic": "t"}]})
    show = ["pipeline", "live", "--lake", str(tmp_path / "lake")]
    assert episub(show) == 1
    schema = "run string, topic string, window long, messages long, live long, delivered long, " \
        "latency_p50 long, latency_p99 long, closed boolean"  # fmt: skip
    for number, rows in enumerate(([(0, False)], [(0, True), (10, False)])):
        table = [("r", "t", at * 10**9, 7 + at, 70, 69, 5_000_000, 9_000_000, closed)
                 for at, closed in rows]  # fmt: skip
        lake.write_live("spread", "r", number, spark.createDataFrame(table, schema), "closed")
        lake.put_live_progress("r", {"batch": number})
    assert episub(show) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2:] for line in lines if line.startswith(" r ")] == [
        ["1970-01-01", "00:00:00", "7", "1", "5.0", "ms", "9.0", "ms"],
        ["1970-01-01", "00:00:10", "17", "1", "5.0", "ms", "9.0", "ms"],
    ]
    (age,) = re.findall(r"^r: the last event that these have was ([0-9.]+) s ago$", lines[-1])
    assert 7.0 <= float(age) < 7.0 + PATIENCE
