"""The simulator's Parquet trace (`sim.trace`) as records: those that its PB trace gives."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.reading.batches import assemble, mapped, one_part_each, singles, where
from episub_router.pipeline.reading.decoding import KINDS
from episub_router.pipeline.reading.names import peer_name
from episub_router.pipeline.record import TEXTS
from episub_router.trace.kinds import OWN, TYPED
from episub_router.trace.simulated import OUTSIDE, TOPIC, peer_id

COLUMNS = {
    "time", "event", "peer", "remote", "message", "hops", "size", "payload", "control", "messages",
    "state", "kind", "reason", "rtt",
}  # fmt: skip
"""How such a file is recognised: all that is read of it."""

_HEADER = b"header"
"""Where the schema's metadata has the fields of the trace's header."""

_KINDS = {name: KINDS.get(name, name) for name in (*TYPED, *OWN)}
_WITHOUT_TOPIC = pa.array(
    ["sendRPC", "onNewOutboundStream", "onClosedOutboundStream", "node", "rtt"]
)
_WITH_TOPIC = pa.array([None, "IHAVE", "GRAFT", "PRUNE"])
"""Parts of an RPC that name their topic, as Go's RPCMeta has it; null is a message."""


def header(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """The trace's header from a file's `metadata`; empty if there is none that can be read."""
    try:
        fields = json.loads((metadata or {}).get(_HEADER, b"{}"))
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def header_record(run: str, file: str, fields: Mapping[str, Any]) -> pa.RecordBatch:
    """The header as a record; it is in front of the file's first row."""
    said = {
        "event": "header",
        "peer": peer_name(peer_id(OUTSIDE)),
        "time": 0,
        "detail": json.dumps(fields, sort_keys=True),
        "kind": str(fields.get("router", "")),
    }
    return assemble(run, file, np.array([-1]), {key: pa.array([said[key]]) for key in said})


def records(run: str, file: str, offset: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch`, whose first row is row number `offset` of the file."""
    column = {name: batch.column(name) for name in batch.schema.names}
    event, control = (column[name].cast(pa.string()) for name in ("event", "control"))
    is_send = pc.equal(event, "sendRPC")
    is_discard = pc.equal(event, "discard")
    message = _ids(column["message"])
    topic = pa.array([TOPIC] * len(batch))
    in_control = where(
        pc.or_(
            pc.not_equal(control, "GRAFT"), pc.greater(pc.list_value_length(column["messages"]), 0)
        ),
        _lists_of_ids(column["messages"]),
    )
    made: dict[str, Any] = {
        "event": pc.coalesce(mapped(event, _KINDS), pa.scalar("other")),
        "peer": _peers(column["peer"]),
        "time": column["time"],
        "topic": where(pc.invert(pc.is_in(event, _WITHOUT_TOPIC)), topic),
        "message": where(pc.invert(is_send), message),
        "remote": _peers(column["remote"]),
        "count": where(is_discard, pa.scalar(1, pa.int32())),
        "parts": one_part_each(
            is_send,
            pc.coalesce(pc.utf8_lower(control), pa.scalar("message")),
            where(pc.is_in(control, _WITH_TOPIC), topic),
            ids=pc.if_else(pc.is_valid(control), in_control, singles(message)),
        ),
    }
    for name in ("hops", "size", "payload", "rtt"):
        made[name] = column[name]
    for name in ("state", "kind", "reason"):
        made[name] = column[name].cast(pa.string())
    return assemble(run, file, np.arange(offset, offset + len(batch)), made)


def _ids(numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise("m", numbers.cast(pa.string()), "")


def _lists_of_ids(lists: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    made = pa.ListArray.from_arrays(pa.array(offsets), _ids(pc.list_flatten(lists)), type=TEXTS)
    return where(pc.is_valid(lists), made)


def _peers(numbers: pa.Array) -> pa.Array:
    names = pc.binary_join_element_wise("sim", numbers.cast(pa.string()), "-")
    return pc.if_else(pc.equal(numbers, OUTSIDE), peer_name(peer_id(OUTSIDE)), names)
