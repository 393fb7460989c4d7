"""One trace file, of whatever format, as batches of records.

Every stretch of the file becomes a record: an event, or something unreadable with its offset and
the reason. The last row says how many there were, so that the writer of the records can check
that none was lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from episub_router.pipeline.reading import hermes, simulator
from episub_router.pipeline.reading.columns import BATCH, Columns, as_text
from episub_router.pipeline.reading.encoding import plain
from episub_router.pipeline.reading.events import EventReader, books
from episub_router.trace.reading import TraceFile, Unreadable

_PARQUET = b"PAR1"

UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)
"""What a Parquet file makes Arrow raise that is damaged or has other columns than it should."""


def read_file(
    path: str, file: str, run: str | None, notes: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """What `read_encoded` gives, as `RECORD`."""
    return map(plain, read_encoded(path, file, run, notes))


def read_encoded(
    path: str, file: str, run: str | None, notes: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The records (`RECORD` or `ENCODED`) of the file at `path`, which is called `file` in them.

    `notes` go into the last row, beside what was counted. Without `run`, the run is the one that
    the trace's header names, or else the directory that `file` is in. Memory is bounded by a few
    batches. Raises OSError where the file can't be opened; nothing that it contains raises.
    """
    run = run or run_of(path) or directory_of(file)
    yield from read_together([(path, file, notes or {})], run)


def read_together(
    files: Iterable[tuple[str, str, Mapping[str, str]]], run: str
) -> Iterator[pa.RecordBatch]:
    """What `read_encoded` gives of each of `files` (path, name, notes), in any order; a file is
    needed until the next one is asked for."""
    events = EventReader(run)
    for path, file, notes in files:
        if is_parquet(path):
            yield from _parquet(path, file, run, notes)
        else:
            yield from events.read(path, file, notes)
    yield from events.rest()


def is_parquet(path: str) -> bool:
    """Whether the file at `path` begins as Parquet does. Raises OSError."""
    with open(path, "rb") as opened:
        return opened.read(len(_PARQUET)) == _PARQUET


def directory_of(file: str) -> str:
    """The name of the directory that `file` is in: what a run is called that no header names."""
    return os.path.basename(os.path.dirname(file)) or "run"


def run_of(path: str) -> str | None:
    """The run that the header of the file at `path` names; None where the first event that can be
    read is no header, or none can be. Raises OSError where the file can't be opened."""
    if is_parquet(path):
        try:
            header = simulator.header(pq.read_schema(path).metadata)
        except UNREADABLE:
            return None
        return str(header["run"]) if header.get("run") else None
    with TraceFile(path) as trace:
        for number, (_, event) in enumerate(trace):
            if not isinstance(event, Unreadable):
                return as_text(event.header.run) or None
            if number >= BATCH:
                break
    return None


def _parquet(path: str, file: str, run: str, notes: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    size = os.path.getsize(path)
    name, rows, stretches = "unknown", 0, 0
    header: dict[str, Any] = {}
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True)
        header = simulator.header(table.schema_arrow.metadata)
        names = set(table.schema_arrow.names)
        known = {"simulator": simulator, "hermes": hermes}
        name = next((name for name, how in known.items() if names >= how.COLUMNS), "unknown")
        if name == "unknown":
            raise ValueError(f"a Parquet file with unknown columns: {', '.join(sorted(names))}")
    except UNREADABLE as error:
        columns = Columns(run, file)
        columns.quarantine(0, min(size, 2**31 - 1), _reason(error))
        stretches += 1
    else:
        columns = Columns(run, file)
        if header:
            simulator.put_header(columns, header)
            yield columns.take()
            stretches += 1
        for group in range(table.num_row_groups):
            wanted = rows + table.metadata.row_group(group).num_rows
            try:
                for batch in table.iter_batches(batch_size=BATCH, row_groups=[group]):
                    batch.validate(full=True)
                    made = known[name].records(run, file, rows, batch)
                    rows += len(batch)
                    yield made
            except UNREADABLE as error:
                columns.quarantine(rows, None, f"{wanted - rows} rows: {_reason(error)}")
                stretches += 1
                # Offsets stay row numbers of the file.
                skipped, rows = wanted - rows, wanted
                stretches -= skipped
    columns.end(books({**notes, "format": name, "bytes": size}, rows + stretches))
    yield columns.take()


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:500]
