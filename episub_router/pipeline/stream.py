"""The same tables from files as they come: Structured Streaming over a directory.

Nodes rotate finished files into the directory. Each micro-batch decodes the new files into a batch
of bronze and makes the answers of the windows anew that are still open. A batch has a name of its
own and is only there once the manifest has it, so one that a crash left half done replaces itself
when it is repeated; Spark's checkpoint remembers which files belong to which batch.

The watermark follows the latest event seen, `lateness` behind: at least what nodes rotate their
files after, since a node without any file so far may have been there all the time. Events from
before it are kept in bronze with `late` set, counted in the manifest, and left out of what is
answered here; `run.answer` has them.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from statistics import median_low
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from episub_router.pipeline.answers import messages
from episub_router.pipeline.bronze.tasks import TraceFileInfo, identify
from episub_router.pipeline.facts import clocks
from episub_router.pipeline.ingest import FINISHED, take
from episub_router.pipeline.lake import Entry, Lake, batch_name, stream_prefix
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.run import Tables, hold
from episub_router.pipeline.state import (
    Horizon,
    counts_of,
    events_of,
    exchanges_of,
    forgotten,
    merged,
    reduced,
    sampled,
)

_TABLES = ("messages", "spread")

_FILES = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True, slots=True)
class Progress:
    """What one micro-batch did."""

    number: int
    files: tuple[Entry, ...]
    watermark: int | None
    """ns; events from before it are late. None in the first batch."""


def stream(
    spark: SparkSession,
    lake: Lake,
    directory: str,
    run: str,
    params: AnswerParams,
    *,
    interval: float = 10.0,
    once: bool = False,
    files_per_batch: int = 1_000,
    answer: bool = True,
    on_batch: Callable[[Progress], None] = lambda progress: None,
) -> StreamingQuery:
    """Start the query that takes every file that comes into `directory` into run `run`.

    `interval` (between looks) is seconds; with `once` the query ends when it has taken all files
    that are there. Without `answer` files are only taken: answers that are made of the whole run
    have them. `on_batch` is called with each batch's progress, in this process.
    Only one query may write a run.
    """
    found = spark.readStream.format("binaryFile").schema(_FILES).options(
        maxFilesPerTrigger=files_per_batch, recursiveFileLookup=True, pathGlobFilter=FINISHED,
        # Spark would pass over files that are older than the newest one by more than a week.
        maxFileAge="3650d",
    )  # fmt: skip
    # The tasks read the content, in blocks.
    files = found.load(directory).select("path", "length")

    def take_batch(batch: DataFrame, number: int) -> None:
        progress = _take(spark, lake, batch, number, run, params)
        if answer and progress.files:
            _answer(lake, run, number, params, progress)
        on_batch(progress)

    writer = files.writeStream.foreachBatch(take_batch).queryName(f"episub-{run}")
    writer = writer.option("checkpointLocation", lake.checkpoint(run))
    when = writer.trigger(availableNow=True) if once else writer.trigger(
        processingTime=f"{interval} seconds"
    )  # fmt: skip
    return when.start()


def _take(
    spark: SparkSession,
    lake: Lake,
    files: DataFrame,
    number: int,
    run: str,
    params: AnswerParams,
) -> Progress:
    name = _batch(run, number)
    manifest = lake.manifest()
    others = [entry for entry in manifest if entry.run == run and entry.batch != name]
    watermark = _watermark([entry for entry in others if entry.batch < name], params)
    # A batch that is there already is repeated because its answers may not be.
    entries = [entry for entry in manifest if entry.batch == name]
    if not entries:
        fresh = _fresh(spark, files, {entry.digest for entry in others}, run)
        entries = take(spark, lake, name, fresh, watermark)
    return Progress(number, tuple(entries), watermark)


def _batch(run: str, number: int) -> str:
    return stream_prefix(run) + batch_name(number)


def _watermark(before: Sequence[Entry], params: AnswerParams) -> int | None:
    """The watermark after the files `before`; an impossible time in one of them doesn't move it."""
    latest = [entry.latest for entry in before if entry.latest is not None]
    if not latest:
        return None
    bound = median_low(latest) + int(params.longest * SECOND)
    return max(time for time in latest if time <= bound) - int(params.lateness * SECOND)


def _fresh(
    spark: SparkSession, files: DataFrame, known: Collection[str], run: str
) -> list[TraceFileInfo]:
    """Those of `files` whose digest isn't `known`, and of several with one content the first."""
    # Spark writes paths of this machine as URIs.
    listed = [
        TraceFileInfo(re.sub(r"^file:/+", "/", row.path), row.length) for row in files.collect()
    ]
    found = identify(spark, sorted(listed, key=lambda file: file.path))
    chosen = {file.digest: file for file in reversed(found) if file.digest not in known}
    return [replace(file, run=run) for file in chosen.values()]


def _answer(lake: Lake, run: str, number: int, params: AnswerParams, progress: Progress) -> None:
    """Make the answers that may still change: those of windows that end less than `patience`
    before the watermark, or after it. What was open before and isn't any more is closed as it is.
    """
    done = lake.live_progress(run)
    # One that is done already is repeated, from the same state.
    base = done.get("before") if done.get("batch") == number else done.get("batch")
    horizon = None if progress.watermark is None else Horizon.of(progress.watermark, params)
    names = {_batch(run, batch) for batch in range(0 if base is None else base + 1, number + 1)}
    rows = reduced(lake.events([run], names))
    if base is not None:
        rows = lake.read_live("state", run, base).unionByName(rows)
    # A sample counts first what it is of, and would have that made twice.
    whole, release = hold(merged(rows, horizon))
    try:
        state = lake.write_live("state", run, number, sampled(whole), "role")
    finally:
        release()
    made = {
        "events": events_of(state),
        "clocks": clocks.clocks(exchanges_of(state)),
        # Headers aren't kept.
        "starts": lake.session.createDataFrame([], "run string, peer string, time long"),
    }
    tables = Tables(made, params)
    with tables.cached("clocks"):
        if horizon is not None:
            publishes = tables("publishes").where(F.col("time") >= horizon.kept)
            closed = forgotten(state, horizon)
            tables.replace("publishes", publishes.join(closed, ["run", "message"], "anti"))
        with tables.cached(
            "changes", "contacts", "publishes", "deliveries", "spans", "links", "activity",
            "subscriptions", "arrivals",
        ):  # fmt: skip
            found = messages.messages(
                tables("publishes"), tables("deliveries"),
                counts_of(state, "copies", "duplicates"), counts_of(state, "sent", "sent"),
                tables("arrivals"),
            )  # fmt: skip
            tables.replace("messages", found)
            with tables.cached("messages"):
                spread = tables("spread").where(F.col("window").isNotNull())
                for name, time, table in (
                    ("messages", "published", tables("messages")),
                    ("spread", "window", spread),
                ):
                    _write(lake, name, run, (base, number), table, horizon, time)
    lake.put_live_progress(run, {"batch": number, "before": base})
    if base is not None:
        lake.forget_live("state", run, base)
        for name in _TABLES:
            lake.forget_live(name, run, base, "/closed=false")


def _write(
    lake: Lake,
    name: str,
    run: str,
    batches: tuple[int | None, int],
    table: DataFrame,
    horizon: Horizon | None,
    time: str,
) -> None:
    """Write what is open of `table`, and what was open in the batch before and is closed now."""
    base, number = batches
    if horizon is not None:
        table = table.where(F.col(time) >= horizon.first)
    table = table.withColumn("closed", F.lit(False))
    if base is not None and horizon is not None:
        before = lake.read_live(name, run, base).where(~F.col("closed"))
        now_closed = before.where(F.col(time) < horizon.first).withColumn("closed", F.lit(True))
        table = table.unionByName(now_closed)
    lake.write_live(name, run, number, table, "closed")


def live(lake: Lake, name: str, runs: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of the table `messages` or `spread` as streams have it now: of windows that are
    closed, which are final, and of those that are open. None before the first batch. Messages are
    numbered (`index`) from the stream's begin."""
    done = {run: lake.live_progress(run).get("batch") for run in runs}
    rows = [
        row
        for run, at in done.items() if at is not None
        for row in lake.look_live(name, run, at).to_pylist()
    ]  # fmt: skip
    if name == "messages":
        rows.sort(key=lambda row: (row["run"], row["topic"], row["published"], row["message"]))
        for _, of_topic in groupby(rows, key=itemgetter("run", "topic")):
            for index, row in enumerate(of_topic):
                row["index"] = index
    return rows
