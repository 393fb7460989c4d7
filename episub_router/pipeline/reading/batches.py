"""Batches of records out of Arrow columns, and lists in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.record import ENCODED, PART, TEXTS, list_of

Ints = Any
"""An array of 64-bit integers."""


def assemble(
    run: str,
    file: str | pa.DictionaryArray,
    offsets: Ints,
    columns: Mapping[str, Any],
    status: str = "event",
) -> pa.RecordBatch:
    """A batch of records (`ENCODED`); columns that aren't given are null."""
    rows = len(offsets)
    made = {
        "run": constant(run, rows),
        "status": constant(status, rows),
        "file": constant(file, rows) if isinstance(file, str) else file,
        "offset": pa.array(offsets, pa.int64()),
        "late": pa.array(np.zeros(rows, dtype=bool)),
        **columns,
    }
    arrays = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(rows, field.type)
        for field in ENCODED
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ENCODED)


def constant(value: str, rows: int) -> pa.DictionaryArray:
    """`value` in each of some rows."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [value])


def where(mask: pa.Array, values: Any) -> pa.Array:
    """`values` where `mask` is true, null elsewhere."""
    return pc.if_else(mask, values, pa.scalar(None))


def singles(values: pa.Array) -> pa.Array:
    """Lists of one, or null where the value is."""
    return _lists(flags(pc.is_valid(values)), values.drop_null())


def flags(mask: pa.Array) -> Any:
    """`mask` as numpy's, false where it is null."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=bool)


def parts_of(
    kind: pa.Array, topic: pa.Array, ids: pa.Array | None, peers: pa.Array | None
) -> pa.StructArray:
    """Parts of RPCs. `ids` and `peers` are lists."""
    none = pa.nulls(len(kind), TEXTS)
    columns = [
        kind, topic, none if ids is None else ids.cast(TEXTS),
        none if peers is None else peers.cast(TEXTS),
    ]  # fmt: skip
    return pa.StructArray.from_arrays(columns, fields=list(PART))


def one_part_each(
    mask: pa.Array,
    kind: pa.Array,
    topic: pa.Array,
    *,
    ids: pa.Array | None = None,
    peers: pa.Array | None = None,
) -> pa.Array:
    """The column `parts` with one part in each row of `mask` and null in the others."""
    chosen = flags(mask)
    rows = pa.array(np.flatnonzero(chosen))
    taken = [None if column is None else column.take(rows) for column in (kind, topic, ids, peers)]
    return _lists(chosen, parts_of(*taken))


def _lists(there: Any, values: pa.Array) -> pa.Array:
    """A list of one of `values` where `there` is set, else null."""
    offsets = np.concatenate([[0], np.cumsum(there)]).astype(np.int32)
    missing = np.concatenate([~there, [False]])
    kind = list_of(values.type)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=missing), values, type=kind)


def mapped(column: pa.Array, table: Mapping[str, str]) -> pa.Array:
    """The value of `table` for each of `column`, null where it has none."""
    return pa.array(list(table.values())).take(pc.index_in(column, pa.array(list(table))))
