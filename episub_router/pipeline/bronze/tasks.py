"""The two jobs that make bronze of trace files, a task for some files each: to look at what they
are, and to write their records."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import SparkSession

from episub_router.pipeline.bronze.content import digest_of, head_of
from episub_router.pipeline.bronze.writer import RecordWriter
from episub_router.pipeline.engine import in_tasks
from episub_router.pipeline.lake import Entry, Staging
from episub_router.pipeline.reading.encoding import encoded
from episub_router.pipeline.reading.files import read_together, run_of
from episub_router.pipeline.storage import fetched, is_local, local_path, send

TASK_BYTES = 32 << 20
"""Small files are taken together until they have this many bytes."""

_TASKS = 64
"""At least, where there is enough: so that no core waits long for the last task."""
_LEAST_BYTES = 1 << 20
"""Less in a task costs more than it spreads."""

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class TraceFileInfo:
    """An input file. `digest`, `head` (its first bytes) and `run` are empty until `identify` has
    looked; `run` is what the header says, or None."""

    path: str
    size: int
    digest: str = ""
    run: str | None = None
    head: bytes = b""

    @property
    def name(self) -> str:
        """What records call it: Hadoop writes local URIs with one slash."""
        return re.sub(r"^file:/+", "/", self.path)


@dataclass(frozen=True, slots=True)
class Batch:
    """What the tasks of one batch of bronze have in common. `late_before` is a stream's watermark
    (ns), None without."""

    name: str
    staging: Staging
    late_before: int | None = None


def identify(spark: SparkSession, files: Sequence[TraceFileInfo]) -> list[TraceFileInfo]:
    """`files` with their digests and what their headers say. Raises OSError for a file that can't
    be read."""
    return _spread(spark, _identified, files)


def write(spark: SparkSession, files: Sequence[TraceFileInfo], batch: Batch) -> list[Entry]:
    """Write the records of `files`, whose `run` is set, to the batch's staging directory; what was
    counted, in order of the files' names."""
    ordered = sorted(files, key=lambda file: (file.run or "", file.path))
    made = _spread(spark, partial(_written, batch=batch), ordered)
    return sorted(made, key=lambda entry: entry.file)


def write_records(
    batches: Iterator[pa.RecordBatch], run: str, part: str, batch: Batch
) -> tuple[list[Entry], int]:
    """Write records of one run, as `read_encoded` gives them of some files, from within a task; an
    entry for each file, and how many rows the Parquet files have."""
    counting = _Counting(run, batch)
    directory = batch.staging.of_run(run)
    attempt = _attempt()
    local = is_local(directory)
    with tempfile.TemporaryDirectory() as scratch:
        target = directory if local else scratch

        def finished(written: str, wanted: str) -> None:
            if local:
                os.replace(written, wanted)
            else:
                send(written, f"{directory}/{os.path.relpath(wanted, scratch)}")

        with RecordWriter(target, part, attempt, finished) as writer:
            for records in batches:
                writer.add(counting.take(records))
    return counting.entries(), writer.rows


@dataclass(slots=True)
class _Counts:
    """What was counted of a file, and what its reader says in the last row."""

    events: int = 0
    quarantined: int = 0
    late: int = 0
    latest: int | None = None
    books: dict[str, Any] | None = None

    def add(self, status: str, row: Mapping[str, Any]) -> None:
        """Count the records of a batch with this `status`."""
        if status == "event":
            self.events += row["count_all"]
            self.late += row.get("late_sum", 0)
        elif status == "quarantined":
            self.quarantined += row["count_all"]
        if row["time_max"] is not None:
            self.latest = max(row["time_max"], self.latest or 0)


class _Counting:
    """Counts records on their way, and marks those that are late."""

    def __init__(self, run: str, batch: Batch) -> None:
        self._run, self._batch = run, batch
        self._counts: defaultdict[str, _Counts] = defaultdict(_Counts)

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        records = encoded(records)
        status, file, times = (records.column(name) for name in ("status", "file", "time"))
        columns = {"status": status.indices, "file": file.indices, "time": times}
        wanted: list[Any] = [([], "count_all"), ("time", "max")]
        if self._batch.late_before is not None:
            late = pc.fill_null(pc.less(times, self._batch.late_before), False)
            place = records.schema.get_field_index("late")
            records = records.set_column(place, records.schema.field("late"), late)
            columns["late"] = late
            wanted.append(("late", "sum"))
        made = pa.table(columns).group_by(["status", "file"], use_threads=False)
        for row in made.aggregate(wanted).to_pylist():
            counts = self._counts[file.dictionary[row["file"]].as_py()]
            counts.add(status.dictionary[row["status"]].as_py(), row)
        ends = records.filter(pc.equal(status, "file")).select(["file", "detail"])
        for end in ends.to_pylist():
            self._counts[end["file"]].books = json.loads(end["detail"])
        return records

    def entries(self) -> list[Entry]:
        """What was counted of each file whose end was among the records."""
        return [
            Entry(
                batch=self._batch.name,
                run=self._run,
                file=file,
                digest=counts.books.get("digest", ""),
                bytes=counts.books["bytes"],
                format=counts.books["format"],
                records=counts.books["records"],
                events=counts.events,
                quarantined=counts.quarantined,
                late=counts.late,
                latest=counts.latest,
                result=counts.books.get("result"),
            )
            for file, counts in self._counts.items()
            if counts.books is not None
        ]


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()


def _spread(
    spark: SparkSession,
    work: Callable[[int, Sequence[TraceFileInfo]], list[_Made]],
    files: Sequence[TraceFileInfo],
) -> list[_Made]:
    """What `work` makes of the number and the files of each task."""
    total = sum(file.size for file in files)
    most = min(TASK_BYTES, max(_LEAST_BYTES, total // _TASKS))
    made = in_tasks(spark, lambda task: work(*task), list(enumerate(_packed(files, most))))
    return [one for of_task in made for one in of_task]


def _packed(files: Sequence[TraceFileInfo], most: int) -> Iterator[list[TraceFileInfo]]:
    packed: list[TraceFileInfo] = []
    size = 0
    for file in files:
        if packed and size + file.size > most:
            yield packed
            packed, size = [], 0
        packed.append(file)
        size += file.size
    if packed:
        yield packed


def _copies(files: Sequence[TraceFileInfo]) -> Iterator[str]:
    """Where on this machine each of `files` can be read, until the next one is asked for."""
    for file in files:
        with fetched(file.path) as copy:
            yield local_path(copy)


def _identified(number: int, files: Sequence[TraceFileInfo]) -> list[TraceFileInfo]:
    del number
    return [
        replace(file, digest=digest_of(copy, file.name), run=run_of(copy), head=head_of(copy))
        for file, copy in zip(files, _copies(files), strict=True)
    ]


def _written(number: int, files: Sequence[TraceFileInfo], batch: Batch) -> list[Entry]:
    entries: list[Entry] = []
    for run, of_run in groupby(files, key=lambda file: file.run or ""):
        chosen = list(of_run)
        copies = zip(chosen, _copies(chosen), strict=True)
        records = ((copy, file.name, {"digest": file.digest}) for file, copy in copies)
        made, rows = write_records(read_together(records, run), run, f"part-{number:05d}", batch)
        counted = sum(entry.events + entry.quarantined + 1 for entry in made)
        if rows != counted or len(made) != len(chosen):
            raise OSError(f"{counted} records were written of {len(chosen)} files, and {rows} read")
        entries += made
    # The process stays for other tasks, which need less.
    pa.default_memory_pool().release_unused()
    return entries
