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

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from episub_router.pipeline.bronze.tasks import TraceFileInfo, identify
from episub_router.pipeline.ingest import FINISHED, take
from episub_router.pipeline.lake import Entry, Lake, batch_name
from episub_router.pipeline.params import SECOND, AnswerParams
from episub_router.pipeline.run import Tables

_LASTING = (
    "join", "leave", "node", "neighbor", "graft", "prune", "stream-up", "stream-down", "publish",
)  # fmt: skip

_SHARED = ("clocks", "spans", "publishes", "deliveries", "links", "subscriptions", "arrivals")

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
    files_per_batch: int = 200,
    answer: bool = True,
    on_batch: Callable[[Progress], None] = lambda progress: None,
) -> StreamingQuery:
    """Start the query that takes every file that comes into `directory` into run `run`.

    `interval` (between looks) is seconds; with `once` the query ends when it has taken all files
    that are there. Without `answer` files are only taken: answers that are made of the whole run
    have them. `on_batch` is called with each batch's progress, in this process.
    Only one query may write a run.
    """
    files = (
        spark.readStream.format("binaryFile")
        .schema(_FILES)
        .option("maxFilesPerTrigger", str(files_per_batch))
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", FINISHED)
        # Spark would pass over files that are older than the newest one by more than a week.
        .option("maxFileAge", "3650d")
        .load(directory)
        # The tasks read the content, in blocks.
        .select("path", "length")
    )

    def take_batch(batch: DataFrame, number: int) -> None:
        progress = _take(spark, lake, batch, number, run, params)
        if answer:
            _answer_open_windows(lake, run, number, params, progress.watermark)
        on_batch(progress)

    writer = (
        files.writeStream.foreachBatch(take_batch)
        .queryName(f"episub-{run}")
        .option("checkpointLocation", lake.checkpoint(run))
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{interval} seconds").start()


def _take(
    spark: SparkSession,
    lake: Lake,
    files: DataFrame,
    number: int,
    run: str,
    params: AnswerParams,
) -> Progress:
    name = f"stream-{run}-{batch_name(number)}"
    manifest = lake.manifest()
    others = [entry for entry in manifest if entry.run == run and entry.batch != name]
    watermark = _watermark([entry for entry in others if entry.batch < name], params)
    # A batch that is there already is repeated because its answers may not be.
    entries = [entry for entry in manifest if entry.batch == name]
    if not entries:
        fresh = _fresh(spark, files, {entry.digest for entry in others}, run)
        entries = take(spark, lake, name, fresh, watermark)
    return Progress(number, tuple(entries), watermark)


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


def _answer_open_windows(
    lake: Lake, run: str, number: int, params: AnswerParams, watermark: int | None
) -> None:
    """Make the answers that may still change: those of windows that end less than `patience`
    before the watermark, or after it."""
    events = lake.events([run])
    first = None
    if watermark is not None:
        size = int(params.window * SECOND)
        first = (watermark - int(params.patience * SECOND)) // size * size
        # Joins and publishing may have been traced long ago.
        events = events.where((F.col("time") >= first) | F.col("event").isin(*_LASTING))
    tables = Tables({"events": events}, params)
    if first is not None:
        publishes = tables("publishes").where(F.col("time") >= first)
        closed = live(lake, "messages", [run], before=number)
        if closed is not None:
            done = closed.where(F.col("published") < first).select("run", "message")
            publishes = publishes.join(done, ["run", "message"], "anti")
        tables.replace("publishes", publishes)
    with tables.kept(*_SHARED):
        made = lake.write_batch("messages", run, number, tables("messages"))
        tables.replace("messages", made)
        spread = tables("spread").where(F.col("window").isNotNull())
        lake.write_batch("spread", run, number, spread)


def live(lake: Lake, name: str, runs: Sequence[str], before: int | None = None) -> DataFrame | None:
    """The table `messages` or `spread` as streams have it now, or had it `before` a batch: of each
    message or window the row that was made last. None before the first batch.

    Messages are numbered (`index`) over all batches; the `stability` of the first message that a
    batch answers is null, for the one before it is not at hand there."""
    table = lake.read_batches(name, runs)
    if table is None:
        return None
    if before is not None:
        # This batch may be there already, half done, and is about to be replaced.
        table = table.where(F.col("batch") < batch_name(before))
    key = ["run", "message"] if name == "messages" else ["run", "topic", "window"]
    newest = Window.partitionBy(*key).orderBy(F.col("batch").desc())
    table = table.withColumn("place", F.row_number().over(newest)).where("place = 1").drop("place")
    if name == "messages":
        order = Window.partitionBy("run", "topic").orderBy("published", "message")
        table = table.withColumn("index", F.row_number().over(order) - 1)
    return table
