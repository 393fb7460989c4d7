"""A second reader of TraceEvents, one event after another in plain Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.pipeline.reading.decoding import LATEST
from episub_router.pipeline.reading.names import as_text, message_name, peer_name
from episub_router.pipeline.record import RECORD
from episub_router.trace.kinds import TYPED, kind_of
from episub_router.trace.reading import TraceFile, Unreadable

Row = dict[str, Any]

_NAMED = {
    "onNewOutboundStream": "stream-up",
    "onClosedOutboundStream": "stream-down",
    "sendRPCCompleted": "written",
}
_SHOWN = {"ihave", "iwant", "graft", "prune", "idontwant"}
_INT32, _INT64 = 2**31 - 1, 2**63 - 1


def one_by_one(path: Path) -> list[Row]:
    """The records of a PB trace but the last row, in order."""
    with TraceFile(path) as trace:
        return [_record(offset, event) for offset, event in trace]


def _record(offset: int, event: TraceEvent | Unreadable) -> Row:
    about = {"run": "r", "file": "f", "late": False, "offset": offset}
    if isinstance(event, Unreadable):
        made = _quarantined(event.size, event.reason)
    elif not event.HasField("timestamp"):
        made = _quarantined(event.ByteSize(), "an event without a timestamp")
    elif not 0 <= event.timestamp < LATEST:
        made = _quarantined(event.ByteSize(), f"an event at {event.timestamp} ns")
    else:
        made = {"status": "event", "peer": peer_name(event.peerID), "time": event.timestamp}
        made |= _about(event)
    return {name: as_text(value) for name, value in
            (dict.fromkeys(RECORD.names) | about | made).items()}  # fmt: skip


def _quarantined(size: int, reason: str) -> Row:
    return {"status": "quarantined", "size": size, "detail": reason}


def _about(event: TraceEvent) -> Row:
    """What depends on the submessage, which gives an event's kind."""
    name: Any = TYPED[event.type]
    # An unknown type reads as PUBLISH_MESSAGE, and has none.
    if not event.HasField(name):
        name = kind_of(event)
    if name is None:
        return {"event": "other"}
    body: Any = getattr(event, name)
    row = {"event": _NAMED.get(name, name.removesuffix("Message").removesuffix("RPC"))}
    if name.endswith("Message"):
        return row | _message(event, body)
    if "RPC" in name:
        remote = body.receivedFrom if name == "recvRPC" else body.sendTo
        return row | {"remote": peer_name(remote)} | _rpc(event, body.meta)
    if name in ("header", "report"):
        return row | {"detail": _json(body), **({"kind": body.router} if name == "header" else {})}
    if name == "sds":
        return row | _sds(body)
    fields = {field.name for field in body.DESCRIPTOR.fields}
    if "topic" in fields:
        row["topic"] = body.topic
    if "peerID" in fields:
        row["remote"] = peer_name(body.peerID)
    if "rtt" in fields and body.HasField("rtt"):
        row["rtt"] = body.rtt
    if name == "onNewOutboundStream":
        row["kind"] = body.proto or None
    elif name in ("graft", "prune") and event.HasField("tree"):
        row["state"] = event.tree.state
    elif name == "node":
        row |= {"state": body.state, "kind": body.region or None}
    elif name == "neighbor":
        row |= {"state": "up" if body.up else "down", "kind": body.kind or None,
                "reason": body.reason or None}  # fmt: skip
    elif name == "discard":
        row |= {
            "topic": body.topic or None, "reason": body.reason,
            "message": message_name(body.messageID) if body.messageID else None,
            "remote": peer_name(body.peerID) if body.peerID else None,
            "count": min(body.count, _INT32) if body.HasField("count") else 1,
        }  # fmt: skip
    return row


def _number(of: Any, name: str, most: int = _INT32) -> int | None:
    return min(getattr(of, name), most) if of.HasField(name) else None


def _message(event: TraceEvent, body: Any) -> Row:
    row = {"topic": body.topic, "message": message_name(body.messageID)}
    row |= {name: _number(event.payload, name) for name in ("hops", "size")}
    if sender := getattr(body, "receivedFrom", b""):
        row["remote"] = peer_name(sender)
    return row | {"reason": getattr(body, "reason", None)}


def _rpc(event: TraceEvent, meta: Any) -> Row:
    frame = event.frame
    row: Row = {name: _number(frame, name) for name in ("hops", "size", "payload")}
    row |= {"seq": _number(frame, "seq", _INT64)}
    row["topic"] = frame.topic if frame.HasField("topic") else None
    names = ("kind", "topic", "messages", "peers")
    row["parts"] = [dict(zip_longest(names, part)) for part in _parts(meta, frame, row["topic"])]
    return row


def _parts(meta: Any, frame: Any, topic: str | None) -> Iterator[tuple[Any, ...]]:
    """Kind, topic, messages and peers of what an RPC carried."""
    control, own = meta.control, [name.lower() for name in frame.control]
    for message in meta.messages:
        yield "message", message.topic, [message_name(message.messageID)]
    for change in meta.subscription:
        yield "subscribe" if change.subscribe else "unsubscribe", change.topic
    for ihave in control.ihave:
        yield "ihave", ihave.topic, list(map(message_name, ihave.messageIDs))
    wanted = [list(map(message_name, iwant.messageIDs)) for iwant in control.iwant]
    # Episub asks by GRAFT, which the trace shows to Go's tools as an IWANT beside it.
    asking = len(control.graft) if "graft" in own else 0
    for graft, named in zip_longest(control.graft, wanted[:asking]):
        yield "graft", graft.topic, named
    for named in wanted[asking:]:
        yield "iwant", topic, named
    for prune in control.prune:
        yield "prune", prune.topic, None, list(map(peer_name, prune.peers)) or None
    for unwanted in control.idontwant:
        yield "idontwant", topic, list(map(message_name, unwanted.messageIDs))
    for kind in own:
        if kind not in _SHOWN:
            yield kind, topic


def _sds(body: Any) -> Row:
    sds = dict.fromkeys(field.name for field in RECORD.field("sds").type)
    sds |= {"channel": body.channelID, "participant": body.participant}
    size = None
    for action in ("send", "deliver", "ack", "missing", "found", "lost", "expired"):
        if not body.HasField(action):
            continue
        detail = getattr(body, action)
        size = getattr(detail, "size", None)
        sds |= {"action": action, "message": detail.messageID}
        if action == "send":
            sds |= {"purpose": detail.purpose, "history": list(detail.causalHistory)}
        elif action == "deliver":
            sds |= {"other": detail.sender, "history": list(detail.causalHistory),
                    "position": _number(detail, "position", _INT64),
                    "lost": list(detail.lost)}  # fmt: skip
        elif action == "ack":
            sds |= {"other": detail.by, "probability": detail.probability}
        elif action == "missing":
            sds |= {"history": list(detail.dependencies)}
        elif action == "found":
            sds |= {"after": detail.after if detail.HasField("after") else None}
        if action in ("send", "deliver"):
            sds |= {"lamport": _number(detail, "lamport", _INT64)}
    return {"topic": body.topic, "size": size, "sds": sds}


def _json(message: Any) -> str:
    # Numbers stay numbers: JSON's rule for protobuf makes text of 64-bit ones.
    fields = MessageToDict(message, preserving_proto_field_name=True)
    return json.dumps(
        {name: getattr(message, name) if isinstance(value, str) else value
         for name, value in fields.items()},
        sort_keys=True, default=as_text,
    )  # fmt: skip
