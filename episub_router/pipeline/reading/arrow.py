"""From the columns of a Parquet trace to records, without going through Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.record import PART, RECORD, TEXTS, list_of


def where(mask: pa.Array, values: Any) -> pa.Array:
    """`values` where `mask` is true, null elsewhere."""
    return pc.if_else(mask, values, pa.scalar(None))


def one_part_each(
    mask: pa.Array,
    kind: pa.Array,
    topic: pa.Array,
    *,
    ids: pa.Array | None = None,
    peers: pa.Array | None = None,
) -> pa.Array:
    """The column `parts` with one part in each row of `mask` and null in the others. `ids` and
    `peers` are lists."""
    chosen = pc.filter(pa.array(np.arange(len(mask))), mask)
    none = pa.nulls(len(chosen), TEXTS)
    parts = pa.StructArray.from_arrays(
        [
            kind.take(chosen),
            topic.take(chosen),
            none if ids is None else ids.take(chosen).cast(TEXTS),
            none if peers is None else peers.take(chosen).cast(TEXTS),
        ],
        fields=list(PART),
    )
    flags = np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=bool)
    return _lists(flags, parts)


def singles(values: pa.Array) -> pa.Array:
    """Lists of one, or null where the value is."""
    flags = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False), dtype=bool)
    return _lists(flags, values.drop_null())


def assemble(
    run: str, file: str, offset: int, rows: int, columns: Mapping[str, Any]
) -> pa.RecordBatch:
    """A batch of events from `columns`; those that aren't in it are null."""
    constant = {"run": run, "status": "event", "file": file, "late": False}
    arrays = []
    for field in RECORD:
        if field.name in constant:
            array = pa.array([constant[field.name]]).take(pa.array(np.zeros(rows, dtype=np.int32)))
        elif field.name == "offset":
            array = pa.array(np.arange(offset, offset + rows))
        elif field.name in columns:
            array = columns[field.name]
            if array.type != field.type:
                array = array.cast(field.type)
        else:
            array = pa.nulls(rows, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD)


def _lists(flags: Any, values: pa.Array) -> pa.Array:
    """A list of one of `values` where `flags` is set, else null."""
    offsets = np.concatenate([[0], np.cumsum(flags)]).astype(np.int32)
    missing = np.concatenate([~flags, [False]])
    kind = list_of(values.type)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=missing), values, type=kind)
