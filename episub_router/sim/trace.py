"""The event trace of a run, written in batches of bounded size (G03).

Each event is a row of `trace.simulated.Row`. Parquet keeps the rows, with the trace header in
the schema's metadata under `header` (JSON); in the other formats each becomes a `TraceEvent`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from episub_router.trace.output import TraceOutput
from episub_router.trace.simulated import Row, event_of, header_of, report_of

BATCH = 100_000
"""Rows held in memory before they are written."""


class TraceWriter(ABC):
    """Collects rows and writes them; to be used as a context manager."""

    def __init__(self) -> None:
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
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._write(self._rows)
            self.rows += len(self._rows)
            self._rows = []

    @abstractmethod
    def _write(self, rows: list[Row]) -> None:
        """Write `rows`."""

    @abstractmethod
    def _close(self) -> None:
        """End the file."""

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flush()
        self._close()


class _Parquet(TraceWriter):
    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        super().__init__()
        names = pa.dictionary(pa.int8(), pa.string())
        numbers = pa.list_(pa.int32())
        types = {
            "time": pa.int64(), "event": names, "hops": pa.int16(), "control": names,
            "messages": numbers, "announced": numbers, "state": names, "kind": names,
            "reason": names, "rtt": pa.int64(),
        }  # fmt: skip
        self._pa: Any = pa
        self._schema = pa.schema(
            [(name, types.get(name, pa.int32())) for name in Row._fields],
            metadata={"header": json.dumps(header)},
        )
        self._writer: Any = pq.ParquetWriter(path, self._schema, compression="zstd")

    def _write(self, rows: list[Row]) -> None:
        columns = [
            self._pa.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._pa.table(columns, schema=self._schema))

    def _close(self) -> None:
        self._writer.close()


class _Events(TraceWriter):
    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        super().__init__()
        self._output = TraceOutput(path)
        self._output.append([header_of(header).SerializeToString()])

    def _write(self, rows: list[Row]) -> None:
        self._output.append([event_of(row).SerializeToString() for row in rows])

    def _close(self) -> None:
        self._output.append([report_of(self.rows + 1).SerializeToString()])
        self._output.close()


def open_trace(path: Path, header: Mapping[str, Any]) -> TraceWriter:
    """Write to `path`: Parquet if it ends so, else in the format that `TraceOutput` reads from it.

    `header` has the fields of a trace header. Raises ImportError for Parquet without pyarrow,
    OSError, then and later, where the file can't be written.
    """
    return (_Parquet if path.suffix == ".parquet" else _Events)(path, header)
