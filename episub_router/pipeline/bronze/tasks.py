"""The two jobs that make bronze of trace files, a task for some files each: to look at what they
are, and to write their records."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import SparkSession

from episub_router.pipeline.bronze.content import digest_of
from episub_router.pipeline.bronze.writer import RecordWriter
from episub_router.pipeline.engine import in_tasks
from episub_router.pipeline.lake import Entry, of_run
from episub_router.pipeline.reading.files import read_together, run_of
from episub_router.pipeline.reading.source import TASK_BYTES, packed
from episub_router.pipeline.storage import fetched, local_path

_TASKS = 64
"""At least, where there is enough: so that no core waits long for the last task."""
_LEAST_BYTES = 16 << 20
"""Less in a task, and so in a file, costs more than it spreads."""


@dataclass(frozen=True, slots=True)
class TraceFileInfo:
    """An input file, last changed at `modified` (ns since 1970). `digest` and `run` are empty until
    `identify` has looked; `run` is what the header says, or None."""

    path: str
    size: int
    modified: int = 0
    digest: str = ""
    run: str | None = None

    @property
    def name(self) -> str:
        """What records call it: Hadoop writes local URIs with one slash."""
        return re.sub(r"^file:/+", "/", self.path)


@dataclass(frozen=True, slots=True)
class Batch:
    """What the tasks of one batch of bronze have in common. `late_before` is a stream's watermark
    (ns), None without."""

    name: str
    staging: str
    late_before: int | None = None


def identify(spark: SparkSession, files: Sequence[TraceFileInfo]) -> list[TraceFileInfo]:
    """`files` with their digests and what their headers say. Raises OSError for a file that can't
    be read."""
    return [*chain(*in_tasks(spark, _identified, _tasks(files)))]


def write(spark: SparkSession, files: Sequence[TraceFileInfo], batch: Batch) -> list[Entry]:
    """Write the records of `files`, whose `run` is set, to the batch's staging directory; what was
    counted, in order of the files' names."""
    ordered = sorted(files, key=lambda file: (file.run or "", file.path))
    made = in_tasks(spark, partial(_written, batch), [*enumerate(_tasks(ordered))])
    return sorted(chain(*made), key=lambda entry: entry.file)


def write_records(
    batches: Iterator[pa.RecordBatch], run: str, part: str, batch: Batch
) -> tuple[list[Entry], int]:
    """Write records of one run (`ENCODED`) of some files, from within a task; an entry for each
    file, and how many rows the Parquet files have."""
    counting, context = _Counting(run, batch), TaskContext.get()
    attempt = 0 if context is None else context.taskAttemptId()
    with RecordWriter(of_run(batch.staging, run), part, attempt) as writer:
        for records in batches:
            writer.add(counting.take(records))
    return counting.entries(), writer.rows


class _Counting:
    """Counts records on their way, and marks those that are late."""

    def __init__(self, run: str, batch: Batch) -> None:
        self._run, self._batch = run, batch
        self._counts: Counter[tuple[str, str]] = Counter()
        """By file and status."""
        self._late: Counter[str] = Counter()
        self._latest: dict[str, int] = {}
        self._books: dict[str, dict[str, Any]] = {}
        """What the reader says in a file's last row."""

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        if self._batch.late_before is not None:
            late = pc.fill_null(pc.less(records.column("time"), self._batch.late_before), False)
            place = records.schema.get_field_index("late")
            records = records.set_column(place, records.schema.field("late"), late)
        keys = ["file", "status"]
        columns = {name: records.column(name) for name in (*keys, "time", "late")}
        columns |= {name: columns[name].indices for name in keys}
        names = [records.column(name).dictionary.to_pylist() for name in keys]
        wanted = [([], "count_all"), ("time", "max"), ("late", "sum")]
        made = pa.table(columns).group_by(keys, use_threads=False).aggregate(wanted)
        for row in made.to_pylist():
            file, status = (of[row[key]] for of, key in zip(names, keys, strict=True))
            self._counts[file, status] += row["count_all"]
            self._late[file] += row["late_sum"]
            if row["time_max"] is not None:
                self._latest[file] = max(row["time_max"], self._latest.get(file, 0))
        ends = records.filter(pc.equal(records.column("status"), "file"))
        for end in ends.select(["file", "detail"]).to_pylist():
            self._books[end["file"]] = json.loads(end["detail"])
        return records

    def entries(self) -> list[Entry]:
        """What was counted of each file whose end was among the records."""
        return [
            Entry(
                self._batch.name, self._run, file, books.get("digest", ""), books["bytes"],
                books["format"], books["records"], self._counts[file, "event"],
                self._counts[file, "quarantined"], self._late[file], self._latest.get(file),
                books.get("result"),
            )
            for file, books in self._books.items()
        ]  # fmt: skip


def _tasks(files: Sequence[TraceFileInfo]) -> list[list[TraceFileInfo]]:
    """The files of each task."""
    total = sum(file.size for file in files)
    most = min(TASK_BYTES, max(_LEAST_BYTES, total // _TASKS))
    return [*packed(files, lambda file: file.size, most)]


def _copies(files: Sequence[TraceFileInfo]) -> Iterator[tuple[TraceFileInfo, str]]:
    """Each of `files`, and where on this machine it can be read until the next one is asked for."""
    for file in files:
        with fetched(file.path) as copy:
            yield file, local_path(copy)


def _identified(files: Sequence[TraceFileInfo]) -> list[TraceFileInfo]:
    return [
        replace(file, digest=digest_of(copy, file.name), run=run_of(copy))
        for file, copy in _copies(files)
    ]


def _written(batch: Batch, task: tuple[int, Sequence[TraceFileInfo]]) -> list[Entry]:
    number, files = task
    entries: list[Entry] = []
    for run, in_run in groupby(files, key=lambda file: file.run or ""):
        chosen = list(in_run)
        records = ((copy, file.name, {"digest": file.digest}) for file, copy in _copies(chosen))
        made, rows = write_records(read_together(records, run), run, f"part-{number:05d}", batch)
        counted = sum(entry.events + entry.quarantined + 1 for entry in made)
        if rows != counted or len(made) != len(chosen):
            raise OSError(f"{counted} records were written of {len(chosen)} files, and {rows} read")
        entries += made
    # The process stays for other tasks, which need less.
    pa.default_memory_pool().release_unused()
    return entries
