"""One trace file, of whatever format, as batches of records.

Every stretch of the file becomes a record: an event, or something unreadable with its offset and
the reason. The last row says how many there were, so that the writer of the records can check
that none was lost.
"""

import os
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from episub_router.pipeline.reading import hermes, simulator
from episub_router.pipeline.reading.events import BATCH, EventReader, books, noted
from episub_router.pipeline.reading.names import as_text
from episub_router.pipeline.record import RECORD
from episub_router.trace.reading import TraceFile, Unreadable

_PARQUET = b"PAR1"

UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)
"""What a Parquet file makes Arrow raise that is damaged or has other columns than it should."""


def read_file(path: str, file: str, run: str | None) -> Iterator[pa.RecordBatch]:
    """The records (`RECORD`) of the file at `path`, which is called `file` in them. Without `run`,
    the run is the one that the trace's header names, or else the directory that `file` is in."""
    run = run or run_of(path) or directory_of(file)
    return (batch.cast(RECORD) for batch in read_together([(path, file, {})], run))


def read_together(
    files: Iterable[tuple[str, str, Mapping[str, str]]], run: str
) -> Iterator[pa.RecordBatch]:
    """The records (`ENCODED`) of `files` (path, name, notes for the last row beside what was
    counted), in any order; a file is needed until the next one is asked for. Memory is bounded by
    a few batches. Raises OSError where a file can't be opened; nothing that it contains raises."""
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
    name, rows, records = "unknown", 0, 0
    said: list[tuple[str, int, str, int | None, str]] = []
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True)
        header = simulator.header(table.schema_arrow.metadata)
        names = set(table.schema_arrow.names)
        known = {"simulator": simulator, "hermes": hermes}
        name = next((name for name, how in known.items() if names >= how.COLUMNS), "unknown")
        if name == "unknown":
            raise ValueError(f"a Parquet file with unknown columns: {', '.join(sorted(names))}")
    except UNREADABLE as error:
        said.append((file, 0, "quarantined", min(size, 2**31 - 1), _reason(error)))
    else:
        if header:
            yield simulator.header_record(run, file, header)
            records += 1
        for group in range(table.num_row_groups):
            wanted = rows + table.metadata.row_group(group).num_rows
            try:
                for batch in table.iter_batches(batch_size=BATCH, row_groups=[group]):
                    batch.validate(full=True)
                    made = known[name].records(run, file, rows, batch)
                    rows, records = rows + len(batch), records + len(batch)
                    yield made
            except UNREADABLE as error:
                reason = f"{wanted - rows} rows: {_reason(error)}"
                said.append((file, rows, "quarantined", None, reason))
                # Offsets stay row numbers of the file.
                rows = wanted
    detail = books({**notes, "format": name, "bytes": size}, records + len(said))
    yield noted(run, [*said, (file, 0, "file", None, detail)])


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:500]
