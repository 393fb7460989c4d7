"""The event trace of a run, as Parquet, written in batches of bounded size (G03).

Columns: `time` (seconds), `event` (start, publish, send, deliver, up, down, crash, leave),
`node` (whose event it is), `peer` (the other one, -1: none), `message` (number, -1: none),
`hops`, `size` (bytes), `kind` (of the message sent, or why a link went down).
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

BATCH = 100_000
"""Rows held in memory before they are written."""

_COLUMNS = ("time", "event", "node", "peer", "message", "hops", "size", "kind")


class TraceWriter:
    """Collects rows and writes them to `path`; to be used as a context manager.

    Raises ImportError without pyarrow, OSError where the file can't be written.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = pa.dictionary(pa.int8(), pa.string())
        types = (
            pa.float64(), names, pa.int32(), pa.int32(), pa.int32(), pa.int16(), pa.int32(), names,
        )  # fmt: skip
        self._pa: Any = pa
        self._schema = pa.schema(list(zip(_COLUMNS, types, strict=True)))
        self._writer: Any = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[tuple[Any, ...]] = []
        self.rows = 0

    def add(
        self,
        time: float,
        event: str,
        node: int,
        peer: int = -1,
        message: int = -1,
        hops: int = 0,
        size: int = 0,
        kind: str = "",
    ) -> None:
        """One event."""
        self._rows.append((time, event, node, peer, message, hops, size, kind))
        if len(self._rows) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        columns = [
            self._pa.array(column, type=field.type)
            for column, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._pa.table(columns, schema=self._schema))
        self.rows += len(self._rows)
        self._rows.clear()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flush()
        self._writer.close()
