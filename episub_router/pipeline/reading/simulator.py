"""The simulator's Parquet trace (`episub_router.sim.trace`) as records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.reading.arrow import assemble, one_part_each, where

COLUMNS = {"time", "event", "node", "peer", "message", "hops", "size", "kind"}
"""How such a file is recognised."""

TOPIC = "sim"
"""A simulated run has one topic, which the trace doesn't name."""

OUTSIDE = -1
"""The publisher of a message that comes from outside of the network."""

_EVENTS = {
    "start": "join",
    "publish": "publish",
    "send": "send",
    "deliver": "deliver",
    "up": "neighbor",
    "down": "neighbor",
    "crash": "node",
    "leave": "node",
}
_STATES = {"up": "up", "down": "down", "crash": "crash", "leave": "leave"}
_PAYLOADS = ("gossip", "publish")
"""Kinds of sends that carry a message: Episub's and gossipsub's."""


def records(run: str, file: str, offset: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch`, whose first row is row number `offset` of the file."""
    column = {name: batch.column(name) for name in batch.schema.names}
    event, kind = _texts(column["event"]), _texts(column["kind"])
    is_send = pc.equal(event, "send")
    is_payload = pc.and_(is_send, pc.is_in(pc.utf8_lower(kind), pa.array(_PAYLOADS)))
    message = where(
        pc.not_equal(column["message"], -1),
        pc.binary_join_element_wise("m", column["message"].cast(pa.string()), ""),
    )
    topic = pa.array([TOPIC] * len(batch))
    made: dict[str, Any] = {
        "event": _mapped(event, _EVENTS),
        "peer": _peers(column["node"]),
        "time": pc.cast(pc.round(pc.multiply(column["time"], 1e9)), pa.int64()),
        "topic": topic,
        "message": where(pc.invert(is_send), message),
        "remote": where(pc.not_equal(column["peer"], -1), _peers(column["peer"])),
        "hops": where(pc.is_valid(message), column["hops"].cast(pa.int32())),
        "size": where(pc.is_in(event, pa.array(["publish", "deliver", "send"])), column["size"]),
        "payload": where(is_send, pc.if_else(is_payload, column["size"], 0)),
        "state": _mapped(event, _STATES),
        "reason": where(pc.equal(event, "down"), kind),
        "parts": one_part_each(
            is_send,
            pc.if_else(is_payload, "message", pc.utf8_lower(kind)),
            topic,
            messages=where(is_payload, message),
        ),
    }
    return assemble(run, file, offset, len(batch), made)


def _texts(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _peers(column: pa.Array) -> pa.Array:
    names = pc.binary_join_element_wise("sim", column.cast(pa.string()), "-")
    return pc.if_else(pc.equal(column, OUTSIDE), "outside", names)


def _mapped(column: pa.Array, table: dict[str, str]) -> pa.Array:
    places = pc.index_in(column, pa.array(list(table)))
    return pa.array(list(table.values())).take(places)
