"""The Parquet tables of Hermes (probe-lab), one table per type of event, as records.

Hermes splits an RPC into a row per control message and a summary (`control_rpc`); the summary,
validations and connections have no counterpart here and become `other`, with their type in `kind`.
Times are milliseconds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.reading.batches import assemble, mapped, one_part_each, singles, where

COLUMNS = {"timestamp", "type", "producer_id"}
"""How such a file is recognised."""

_DIRECTIONS = {"in": "recv", "out": "send", "drop": "drop"}
_SUBTYPES = {
    "add_peer": "stream-up",
    "remove_peer": "stream-down",
    "graft": "graft",
    "prune": "prune",
    "deliver_msg": "deliver",
    "duplicated_msg": "duplicate",
    "reject_msg": "reject",
    "join_topic": "join",
    "leave_topic": "leave",
}
_PARTS = {
    "ihave": "ihave",
    "iwant": "iwant",
    "idontwant": "idontwant",
    "sent_msg": "message",
    "peer_exchange": "prune",
}

_Columns = Mapping[str, pa.Array]


def records(run: str, file: str, offset: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch`, whose first row is row number `offset` of the file."""
    column = {name: batch.column(name) for name in batch.schema.names}
    rows = len(batch)
    kind = column["type"].cast(pa.string())
    is_rpc = pc.is_in(kind, pa.array(list(_PARTS)))
    event = pc.coalesce(
        where(is_rpc, mapped(_text(column, "direction", rows), _DIRECTIONS)),
        mapped(_text(column, "sub_type", rows), _SUBTYPES),
        pa.scalar("other"),
    )
    is_other = pc.equal(event, "other")
    subtype = _text(column, "sub_type", rows)
    made: dict[str, Any] = {
        "event": event,
        "peer": column["producer_id"].cast(pa.string()),
        "time": pc.multiply(column["timestamp"].cast(pa.int64()), 1_000_000),
        "topic": _text(column, "topic", rows),
        "message": where(pc.invert(is_rpc), _text(column, "msg_id", rows)),
        "remote": _text(column, "remote_peer_id", rows),
        "size": _bounded(column, "msg_size", rows),
        "kind": where(is_other, pc.coalesce(subtype, kind)),
        "reason": where(pc.equal(event, "reject"), pa.scalar("")),
        "parts": _parts(column, rows, kind, is_rpc),
    }
    return assemble(run, file, np.arange(offset, offset + rows), made)


def _parts(column: _Columns, rows: int, kind: pa.Array, is_rpc: pa.Array) -> pa.Array:
    # A table has one type, so either all rows have lists of ids or none has.
    ids = column.get("msg_ids")
    if ids is None and "msg_id" in column:
        ids = singles(_text(column, "msg_id", rows))
    return one_part_each(
        is_rpc,
        mapped(kind, _PARTS),
        _text(column, "topic", rows),
        ids=ids,
        peers=column.get("px_peers"),
    )


def _text(column: _Columns, name: str, rows: int) -> pa.Array:
    found = column.get(name)
    return pa.nulls(rows, pa.string()) if found is None else found.cast(pa.string())


def _bounded(column: _Columns, name: str, rows: int) -> pa.Array:
    found = column.get(name)
    if found is None:
        return pa.nulls(rows, pa.int32())
    return pc.min_element_wise(found, 2**31 - 1).cast(pa.int32())
