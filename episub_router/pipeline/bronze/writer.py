"""The records of one run as Parquet: one file for each status, in a directory of its own."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from episub_router.pipeline.record import ENCODED
from episub_router.pipeline.storage import at

ROW_GROUP = 120_000
"""Rows of one kind that are held before they are written: some 30 MB, for five frequent kinds."""

_PARTITIONS = ("run", "status")
_SCHEMA = pa.schema([field for field in ENCODED if field.name not in _PARTITIONS])

_PARTS = "parts.list.element"
_REPEATED = [
    *(field.name for field in _SCHEMA if pa.types.is_dictionary(field.type)),
    *(f"{_PARTS}.{name}" for name in ("kind", "topic")),
    *(f"{_PARTS}.{name}.list.element" for name in ("messages", "peers")),
]
"""Columns that are the same in many rows; to look for that in others takes time."""
_GROWING = dict.fromkeys(("offset", "time"), "DELTA_BINARY_PACKED")
"""Columns whose values are a little more than the one before, mostly."""


class RecordWriter:
    """Writes batches of records, all of one run, to `status=S/NAME.parquet` in a directory, here or
    at a URI; to be used as a context manager.

    Files are called `.NAME.ATTEMPT` until they are complete: what a killed task leaves, nobody
    takes for a table's.
    """

    def __init__(self, directory: str, name: str, attempt: int) -> None:
        self._system, self._directory = at(directory)
        self._name, self._attempt = name, attempt
        self._held: dict[tuple[str, str | None], list[pa.RecordBatch]] = {}
        self._writers: dict[str, Any] = {}
        self.rows = 0
        """Rows in the files that are complete, as these say themselves."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take `batch`, of `ENCODED`."""
        statuses = batch.column("status")
        kinds = pc.unique(statuses).to_pylist()
        for kind in kinds:
            rows = batch if len(kinds) == 1 else batch.filter(pc.equal(statuses, kind))
            # A query for one kind of event passes over row groups of others.
            events = pc.unique(rows.column("event")).to_pylist()
            group = kind, events[0] if len(events) == 1 else ""
            held = self._held.setdefault(group, [])
            held.append(rows.select(_SCHEMA.names))
            if sum(map(len, held)) >= ROW_GROUP:
                self._write(*group)

    def _write(self, kind: str, event: str | None) -> None:
        held, self._held[kind, event] = self._held[kind, event], []
        if kind not in self._writers:
            self._system.create_dir(f"{self._directory}/status={kind}")
            self._writers[kind] = pq.ParquetWriter(
                self._begun(kind),
                _SCHEMA,
                filesystem=self._system,
                compression="zstd",
                compression_level=1,
                use_dictionary=_REPEATED,
                column_encoding=_GROWING,
                # Else readers of Arrow's would have dictionaries where texts are wanted.
                store_schema=False,
            )
        self._writers[kind].write_table(
            # Of one dictionary a group of rows is written as it is.
            pa.Table.from_batches(held, _SCHEMA).unify_dictionaries()
        )

    def _begun(self, kind: str) -> str:
        return f"{self._directory}/status={kind}/.{self._name}.{self._attempt}"

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            for group in [group for group, held in self._held.items() if held]:
                self._write(*group)
        for status, writer in self._writers.items():
            writer.close()
            path, wanted = self._begun(status), f"{self._directory}/status={status}/{self._name}"
            if error is None:
                self.rows += pq.read_metadata(path, filesystem=self._system).num_rows
                self._system.move(path, f"{wanted}.parquet")
            else:
                self._system.delete_file(path)
