"""The frequent kinds of event as narrow protobuf messages, which `ptars` parses into Arrow by the
thousand: only the fields that records have, and text as bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from ptars import HandlerPool

_Fields = dict[str, tuple[int, int | str]]
"""Name, with a star if it is repeated, to number and type: a scalar's, or a message's name."""

BODIES: dict[int, tuple[str, str, int]] = {
    0: ("publish", "Publish", 4),
    2: ("duplicate", "Duplicate", 6),
    3: ("deliver", "Deliver", 7),
    6: ("recv", "Rpc", 10),
    7: ("send", "Rpc", 11),
}
"""`TraceEvent.Type` to the kind of record, the message here, and its field in the event."""

_BYTES, _UINT32, _UINT64 = Field.TYPE_BYTES, Field.TYPE_UINT32, Field.TYPE_UINT64

_MESSAGES: dict[str, _Fields] = {
    "Publish": {"id": (1, _BYTES), "topic": (2, _BYTES)},
    "Duplicate": {"id": (1, _BYTES), "remote": (2, _BYTES), "topic": (3, _BYTES)},
    "Deliver": {"id": (1, _BYTES), "topic": (2, _BYTES), "remote": (3, _BYTES)},
    "Rpc": {"remote": (1, _BYTES), "meta": (2, "Meta")},
    "Meta": {"messages*": (1, "Message"), "subscription*": (2, _BYTES), "control": (3, "Control")},
    "Message": {"id": (1, _BYTES), "topic": (2, _BYTES)},
    "Control": {
        "ihave*": (1, "Ihave"), "iwant*": (2, "Iwant"), "graft*": (3, _BYTES),
        "prune*": (4, _BYTES), "idontwant*": (5, _BYTES),
    },
    "Ihave": {"topic": (1, _BYTES), "ids*": (2, _BYTES)},
    "Iwant": {"ids*": (1, _BYTES)},
    "Payload": {"hops": (1, _UINT32), "size": (2, _UINT32)},
    "Frame": {
        "size": (1, _UINT32), "payload": (2, _UINT32), "topic": (3, _BYTES), "seq": (4, _UINT64),
        "hops": (5, _UINT32), "control*": (6, _BYTES), "ihaveHops": (7, _BYTES),
    },
}  # fmt: skip


@cache
def _handlers() -> dict[int, Any]:
    file = FileDescriptorProto(name="narrow.proto", package="narrow", syntax="proto2")
    messages = dict(_MESSAGES)
    for name, body, number in BODIES.values():
        beside: _Fields = {"payload": (100, "Payload")}
        if body == "Rpc":
            beside = {"frame": (101, "Frame")}
        messages[f"{name}Event"] = {
            "peer": (2, _BYTES), "time": (3, Field.TYPE_INT64), "body": (number, body), **beside,
        }  # fmt: skip
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for key, (number, kind) in fields.items():
            field = message.field.add(name=key.rstrip("*"), number=number)
            field.label = Field.LABEL_REPEATED if key.endswith("*") else Field.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = Field.TYPE_MESSAGE, f".narrow.{kind}"
            else:
                field.type = kind  # type: ignore[assignment]
    pool = DescriptorPool()
    pool.Add(file)
    handlers = HandlerPool([pool.FindFileByName(file.name)])
    return {
        kind: handlers.get_for_message(pool.FindMessageTypeByName(f"narrow.{name}Event"))
        for kind, (name, _, _) in BODIES.items()
    }


def parse(kind: int, raw: pa.Array) -> pa.RecordBatch:
    """The events `raw`, all of `TraceEvent.Type` `kind`, one of BODIES: columns peer, time, body
    and payload or frame. Raises ValueError where one of them is none."""
    return _handlers()[kind].array_to_record_batch(raw)
