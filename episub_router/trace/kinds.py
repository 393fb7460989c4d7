"""Which submessages make an event what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from episub_router.pb.trace_pb2 import TraceEvent

TYPED = (
    "publishMessage",
    "rejectMessage",
    "duplicateMessage",
    "deliverMessage",
    "onNewOutboundStream",
    "onClosedOutboundStream",
    "recvRPC",
    "sendRPC",
    "dropRPC",
    "join",
    "leave",
    "graft",
    "prune",
    "sendRPCCompleted",
)
"""Go's events, each at the place that its `TraceEvent.Type` has as number."""

OWN = ("header", "report", "node", "neighbor", "rtt", "discard", "sds")
"""Episub's own events, whose type is `CARRIER`."""

CARRIER = TraceEvent.JOIN


def made(
    kind: str, peer: bytes, at: int, content: Mapping[str, Any] | Message, **beside: Any
) -> TraceEvent:
    """An event of `kind` at `peer` and the time `at`, with `content`, whose fields that are None
    it lacks."""
    beside["type"] = TYPED.index(kind) if kind in TYPED else CARRIER
    beside[kind] = content
    return TraceEvent(peerID=peer, timestamp=at, **beside)


def kind_of(event: TraceEvent) -> str | None:
    """The submessage that says what `event` is; None if there is none that we know, or if it
    isn't the one of the event's type."""
    message: Any = event  # HasField is typed for literal names only.
    if message.HasField("type"):
        typed = TYPED[event.type]
        if message.HasField(typed):
            return typed
        if event.type == CARRIER:
            for own in OWN:
                if message.HasField(own):
                    return own
    return None


def is_of_another_kind(event: TraceEvent) -> bool:
    """Whether `event` is sound, and of a kind that only newer software knows.

    Its type is unknown, or ours, and so is the submessage.
    """
    message: Any = event
    if not event.HasField("peerID") or any(message.HasField(name) for name in (*TYPED, *OWN)):
        return False
    fields: Any = UnknownFieldSet(message)
    unknown = {field.field_number for field in fields}
    unknown_type = 1 in unknown
    unknown.discard(1)
    return bool(unknown) and (unknown_type or event.type == CARRIER)
