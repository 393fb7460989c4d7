"""Records whose names are numbers into a dictionary, as Parquet stores them, and back."""

from __future__ import annotations

import pyarrow as pa

from episub_router.pipeline.record import RECORD

_NAMES = ("run", "status", "file", "event", "peer", "topic", "message", "remote")

ENCODED = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in _NAMES else field
        for field in RECORD
    ]
)
"""`RECORD` with dictionaries of the texts that are the same in many rows."""


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch`, of `RECORD` or `ENCODED`, as `ENCODED`."""
    if batch.schema.equals(ENCODED):
        return batch
    columns = [
        column.dictionary_encode() if field.name in _NAMES else column
        for field, column in zip(ENCODED, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENCODED)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch`, of either, as `RECORD`."""
    return batch if batch.schema.equals(RECORD) else batch.cast(RECORD)
