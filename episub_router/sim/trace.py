"""The event trace of a run, written in batches of bounded size (G03).

Each event is a row of `trace.simulated.Row`. Parquet keeps the rows, with the trace header in
the schema's metadata under `header` (JSON); in the other formats each becomes a `TraceEvent`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from episub_router.trace.output import TraceOutput
from episub_router.trace.simulated import Row, event_of, header_of, report_of

BATCH = 100_000
"""Rows held in memory before they are written."""


class TraceWriter:
    """Collects rows, and hands them to `write` batch by batch."""

    def __init__(self, write: Callable[[list[Row]], None]) -> None:
        self._write = write
        self._rows: list[Row] = []
        self.rows = 0
        """Rows written."""

    def add(self, time: float, event: str, peer: int, **columns: Any) -> None:
        """One event at `time` in seconds; `rtt`, if given, is in seconds too."""
        rtt = columns.get("rtt")
        if rtt is not None:
            columns["rtt"] = round(rtt * 1e9)
        self._rows.append(Row(round(time * 1e9), event, peer, **columns))
        if len(self._rows) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand on what is there."""
        if self._rows:
            self._write(self._rows)
            self.rows += len(self._rows)
            self._rows = []


@contextmanager
def open_trace(path: Path, header: Mapping[str, Any]) -> Iterator[TraceWriter]:
    """Write to `path`: Parquet if it ends so, else in the format that `TraceOutput` reads from it.

    `header` has the fields of a trace header. Raises ImportError for Parquet without pyarrow,
    OSError, then and later, where the file can't be written.
    """
    with (_parquet if path.suffix == ".parquet" else _events)(path, header) as writer:
        try:
            yield writer
        finally:
            writer.flush()


@contextmanager
def _parquet(path: Path, header: Mapping[str, Any]) -> Iterator[TraceWriter]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.dictionary(pa.int8(), pa.string())
    numbers = pa.list_(pa.int32())
    types = {
        "time": pa.int64(), "event": names, "hops": pa.int16(), "control": names,
        "messages": numbers, "announced": numbers, "state": names, "kind": names,
        "reason": names, "rtt": pa.int64(),
    }  # fmt: skip
    schema: Any = pa.schema(
        [(name, types.get(name, pa.int32())) for name in Row._fields],
        metadata={"header": json.dumps(header)},
    )

    def write(rows: list[Row]) -> None:
        columns = [
            pa.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        file.write_table(pa.table(columns, schema=schema))

    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        yield TraceWriter(write)


@contextmanager
def _events(path: Path, header: Mapping[str, Any]) -> Iterator[TraceWriter]:
    with closing(TraceOutput(path)) as output:
        output.append([header_of(header).SerializeToString()])
        writer = TraceWriter(
            lambda rows: output.append([event_of(row).SerializeToString() for row in rows])
        )
        try:
            yield writer
        finally:
            output.append([report_of(writer.rows + 1).SerializeToString()])
