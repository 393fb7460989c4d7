"""Streams: the same totals whatever is killed, late events counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.files import SECOND, delimited, node_events, write_star

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episub_router.pipeline.stream import Progress

pytestmark = pytest.mark.spark


def drain(spark: SparkSession, root: Path, directory: Path, **options: float) -> list[Progress]:
    """Take all that is in `directory`."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.stream import stream

    told: list[Progress] = []
    query = stream(
        spark, Lake(spark, str(root)), str(directory), "r", AnswerParams(window=5.0),
        once=True, told=told.append, **options,
    )  # fmt: skip
    query.awaitTermination()
    return told


def test_late_events_are_kept_apart_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.stream import live

    lake, traces = Lake(spark, str(tmp_path / "lake")), tmp_path / "traces"
    count = write_star(traces, messages=20)
    (first,) = drain(spark, Path(lake.root), traces, lateness=2.0)
    assert (sum(entry.events for entry in first.files), first.watermark) == (count, None)
    before = {row.window: row for row in _live(lake, "spread")}
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
    after = {row.window: row for row in _live(lake, "spread")}
    assert set(after) == set(before)
    closed = min(before)
    assert closed + 5 * SECOND + 10 * SECOND < second.watermark
    assert after[closed] == before[closed]
    assert sum(row.messages for row in after.values()) == 20
    assert live(lake, "messages", ["r"]) is not None


def _live(lake: object, name: str) -> list[object]:
    from episub_router.pipeline.stream import live

    table = live(lake, name, ["r"])  # type: ignore[arg-type]
    assert table is not None
    return table.drop("batch").collect()


@pytest.mark.timeout(900)
def test_a_killed_stream_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.ingest import read_records
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import Tables

    traces, root = tmp_path / "traces", tmp_path / "lake"
    count = write_star(traces, nodes=3, messages=12)
    command = [
        sys.executable, "-m", "episub_router", "pipeline", "stream", str(traces), "--run", "r",
        "--lake", str(root), "--files", "1", "--window", "5", "--once", "--master", "local[1]",
        "--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=1",
        "--conf", "spark.sql.codegen.wholeStage=false",
        "--conf", "spark.sql.adaptive.enabled=false",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
        env={
            **os.environ,
            "PYTHONPATH": os.getcwd(),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    ) as process:  # fmt: skip
        assert process.stdout is not None
        batches = 0
        for line in process.stdout:
            batches += line.startswith("batch")
            if batches == 1:
                break
        # In the middle of the second one, JVM and all.
        os.killpg(process.pid, signal.SIGKILL)
    lake = Lake(spark, str(root))
    assert len({entry.batch for entry in lake.manifest()}) < 3
    told = drain(spark, root, traces, files_per_batch=2)
    assert told
    entries = lake.manifest()
    assert len(entries) == 3
    assert sum(entry.events for entry in entries) == count
    assert lake.events(["r"]).count() == count
    tables = Tables(
        {"records": read_records(spark, sorted(map(str, traces.iterdir())), "r").cache()},
        AnswerParams(window=5.0),
    )
    with tables.kept("clocks", "publishes", "deliveries", "subscriptions", "arrivals", "messages"):
        wanted = tables("spread").where("window IS NOT NULL").orderBy("window").collect()
    found = sorted(_live(lake, "spread"), key=lambda row: row.window)  # type: ignore[attr-defined]
    assert [row.asDict() for row in found] == [row.asDict() for row in wanted]  # type: ignore[attr-defined]
    assert sum(row.deliveries for row in wanted) == 12 * 2
