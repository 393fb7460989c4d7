"""A second reader of TraceEvents, one event after another in plain Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.pipeline.reading.decoding import LATEST
from episub_router.pipeline.reading.names import Names, as_text, message_name, peer_name
from episub_router.pipeline.record import RECORD
from episub_router.trace.kinds import TYPED, kind_of
from episub_router.trace.reading import TraceFile, Unreadable

Row = dict[str, Any]

_SHOWN = {"ihave", "iwant", "graft", "prune", "idontwant"}
_INT32, _INT64 = 2**31 - 1, 2**63 - 1


def one_by_one(path: Path) -> list[Row]:
    """The records of a PB trace but the last row, in order."""
    rows = Rows()
    decoder = EventDecoder(rows)
    with TraceFile(path) as trace:
        for offset, event in trace:
            if isinstance(event, Unreadable):
                rows.quarantine(offset, event.size, event.reason)
            elif not event.HasField("timestamp"):
                rows.quarantine(offset, event.ByteSize(), "an event without a timestamp")
            elif not 0 <= event.timestamp < LATEST:
                rows.quarantine(offset, event.ByteSize(), f"an event at {event.timestamp} ns")
            else:
                decoder.add(offset, event)
    return [{name: as_text(value) for name, value in row.items()} for row in rows.rows]


class Rows:
    """Records under way."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(
        self, offset: int, event: str | None, peer: str | None, time: int | None,
        topic: str | None = None, message: str | None = None, remote: str | None = None,
        hops: int | None = None, size: int | None = None, payload: int | None = None,
        seq: int | None = None, rpc: bool = False, status: str = "event",
    ) -> None:  # fmt: skip
        made = {"offset": offset, "event": event, "peer": peer, "time": time, "topic": topic,
                "message": message, "remote": remote, "hops": hops, "size": size,
                "payload": payload, "seq": seq, "status": status,
                "parts": [] if rpc else None}  # fmt: skip
        about = {"run": "r", "file": "f", "late": False}
        self.rows.append(dict.fromkeys(RECORD.names) | about | made)

    def put(self, **values: Any) -> None:
        """Values of the record added last."""
        if values.get("sds"):
            values["sds"] = dict.fromkeys(_SDS_NAMES) | values["sds"]
        self.rows[-1] |= values

    def part(
        self, kind: str, topic: str | None = None, messages: list[str] | None = None,
        peers: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Something that the RPC added last carried."""
        part = {"kind": kind, "topic": topic, "messages": messages, "peers": peers}
        self.rows[-1]["parts"].append(part)

    def quarantine(self, offset: int, size: int | None, reason: str) -> None:
        self.add(offset, None, None, None, size=size, status="quarantined")
        self.put(detail=reason)


_SDS_NAMES = [field.name for field in RECORD.field("sds").type]


class EventDecoder:
    """Adds events to `columns`."""

    def __init__(self, columns: Rows) -> None:
        self._columns = columns
        self._peers = Names(peer_name)
        self._ids = Names(message_name)
        self._handlers: dict[str, Callable[[int, TraceEvent, str, int], None]] = {
            "publishMessage": self._publish,
            "rejectMessage": self._reject,
            "duplicateMessage": self._duplicate,
            "deliverMessage": self._deliver,
            "onNewOutboundStream": self._stream_up,
            "onClosedOutboundStream": self._stream_down,
            "recvRPC": self._recv,
            "sendRPC": self._send,
            "dropRPC": self._drop,
            "join": self._join,
            "leave": self._leave,
            "graft": self._graft,
            "prune": self._prune,
            "sendRPCCompleted": self._other,
            "header": self._header,
            "report": self._report,
            "node": self._node,
            "neighbor": self._neighbor,
            "rtt": self._rtt,
            "discard": self._discard,
            "sds": self._sds,
        }
        self._by_type = [(name, self._handlers[name]) for name in TYPED]

    def add(self, offset: int, event: TraceEvent) -> None:
        """Add `event`, which began at `offset`. Its kind is the submessage that it has."""
        peer = self._peers[event.peerID]
        time = event.timestamp
        name, handle = self._by_type[event.type]
        # An unknown type reads as PUBLISH_MESSAGE, and has none.
        if event.HasField(name):  # type: ignore[arg-type]
            handle(offset, event, peer, time)
            return
        kind = kind_of(event)
        handle = self._other if kind is None else self._handlers[kind]
        handle(offset, event, peer, time)

    def _other(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._columns.add(offset, "other", peer, time)

    # Messages.

    def _publish(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.publishMessage
        self._message(offset, "publish", event, peer, time, body, None)

    def _deliver(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.deliverMessage
        self._message(offset, "deliver", event, peer, time, body, body.receivedFrom)

    def _duplicate(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.duplicateMessage
        self._message(offset, "duplicate", event, peer, time, body, body.receivedFrom)

    def _reject(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.rejectMessage
        self._message(offset, "reject", event, peer, time, body, body.receivedFrom)
        self._columns.put(reason=body.reason)

    def _message(
        self,
        offset: int,
        name: str,
        event: TraceEvent,
        peer: str,
        time: int,
        body: Any,
        sender: bytes | None,
    ) -> None:
        hops = size = None
        if event.HasField("payload"):
            meta = event.payload
            hops = min(meta.hops, _INT32) if meta.HasField("hops") else None
            size = min(meta.size, _INT32) if meta.HasField("size") else None
        self._columns.add(
            offset,
            name,
            peer,
            time,
            body.topic,
            self._ids[body.messageID],
            self._peers[sender] if sender else None,
            hops,
            size,
        )

    # RPCs.

    def _recv(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._rpc(offset, "recv", event, peer, time, event.recvRPC.receivedFrom, event.recvRPC.meta)

    def _send(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._rpc(offset, "send", event, peer, time, event.sendRPC.sendTo, event.sendRPC.meta)

    def _drop(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._rpc(offset, "drop", event, peer, time, event.dropRPC.sendTo, event.dropRPC.meta)

    def _rpc(
        self,
        offset: int,
        name: str,
        event: TraceEvent,
        peer: str,
        time: int,
        remote: bytes,
        meta: TraceEvent.RPCMeta,
    ) -> None:
        columns = self._columns
        size = payload = hops = seq = topic = None
        own: tuple[str, ...] = ()
        if event.HasField("frame"):
            frame = event.frame
            size = min(frame.size, _INT32) if frame.HasField("size") else None
            payload = min(frame.payload, _INT32) if frame.HasField("payload") else None
            hops = min(frame.hops, _INT32) if frame.HasField("hops") else None
            seq = min(frame.seq, _INT64) if frame.HasField("seq") else None
            topic = frame.topic if frame.HasField("topic") else None
            own = tuple(name.lower() for name in frame.control)
        columns.add(
            offset, name, peer, time, topic, None, self._peers[remote], hops, size, payload, seq,
            rpc=True,
        )  # fmt: skip
        ids, part = self._ids, columns.part
        for message in meta.messages:
            part("message", message.topic, [ids[message.messageID]])
        for change in meta.subscription:
            part("subscribe" if change.subscribe else "unsubscribe", change.topic)
        if meta.HasField("control"):
            self._control(meta.control, topic, own)
        for kind in own:
            if kind not in _SHOWN:
                part(kind, topic)

    def _control(
        self, control: TraceEvent.ControlMeta, topic: str | None, own: tuple[str, ...]
    ) -> None:
        ids, part = self._ids, self._columns.part
        for ihave in control.ihave:
            part("ihave", ihave.topic, [ids[message] for message in ihave.messageIDs])
        wanted = [[ids[message] for message in iwant.messageIDs] for iwant in control.iwant]
        # Episub asks by GRAFT, which the trace shows to Go's tools as an IWANT beside it.
        asking = len(control.graft) if "graft" in own else 0
        for graft, named in zip_longest(control.graft, wanted[:asking]):
            part("graft", graft.topic, named)
        for named in wanted[asking:]:
            part("iwant", topic, named)
        for prune in control.prune:
            part("prune", prune.topic, None, [self._peers[peer] for peer in prune.peers] or None)
        for unwanted in control.idontwant:
            part("idontwant", topic, [ids[message] for message in unwanted.messageIDs])

    # Links.

    def _stream_up(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.onNewOutboundStream
        self._columns.add(offset, "stream-up", peer, time, remote=self._peers[body.peerID])
        self._columns.put(kind=body.proto or None)

    def _stream_down(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        remote = self._peers[event.onClosedOutboundStream.peerID]
        self._columns.add(offset, "stream-down", peer, time, remote=remote)

    def _join(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._columns.add(offset, "join", peer, time, event.join.topic)

    def _leave(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._columns.add(offset, "leave", peer, time, event.leave.topic)

    def _graft(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._tree(offset, "graft", event, peer, time, event.graft)

    def _prune(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._tree(offset, "prune", event, peer, time, event.prune)

    def _tree(
        self, offset: int, name: str, event: TraceEvent, peer: str, time: int, body: Any
    ) -> None:
        remote = self._peers[body.peerID]
        self._columns.add(offset, name, peer, time, body.topic, remote=remote)
        if event.HasField("tree"):
            self._columns.put(state=event.tree.state)

    # Our own.

    def _header(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._columns.add(offset, "header", peer, time)
        self._columns.put(detail=_json(event.header), kind=event.header.router)

    def _report(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._columns.add(offset, "report", peer, time)
        self._columns.put(detail=_json(event.report))

    def _node(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        self._columns.add(offset, "node", peer, time)
        self._columns.put(state=event.node.state)
        if event.node.region:
            self._columns.put(kind=event.node.region)

    def _neighbor(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.neighbor
        self._columns.add(
            offset, "neighbor", peer, time, body.topic, remote=self._peers[body.peerID]
        )
        self._columns.put(state="up" if body.up else "down")
        if body.kind:
            self._columns.put(kind=body.kind)
        if body.reason:
            self._columns.put(reason=body.reason)
        if body.HasField("rtt"):
            self._columns.put(rtt=body.rtt)

    def _rtt(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.rtt
        self._columns.add(offset, "rtt", peer, time, remote=self._peers[body.peerID])
        if body.HasField("rtt"):
            self._columns.put(rtt=body.rtt)

    def _discard(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.discard
        remote = self._peers[body.peerID] if body.peerID else None
        message = self._ids[body.messageID] if body.messageID else None
        self._columns.add(offset, "discard", peer, time, body.topic or None, message, remote)
        count = min(body.count, _INT32) if body.HasField("count") else 1
        self._columns.put(reason=body.reason, count=count)

    def _sds(self, offset: int, event: TraceEvent, peer: str, time: int) -> None:
        body = event.sds
        sds: dict[str, Any] = {"channel": body.channelID, "participant": body.participant}
        size = None
        for action in ("send", "deliver", "ack", "missing", "found", "lost", "expired"):
            if body.HasField(action):
                detail = getattr(body, action)
                sds |= {"action": action, "message": detail.messageID}
                sds |= _SDS_DETAILS[action](detail)
                size = getattr(detail, "size", None)
        self._columns.add(offset, "sds", peer, time, body.topic, size=size)
        self._columns.put(sds=sds)


_SDS_DETAILS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "send": lambda send: {
        "purpose": send.purpose,
        "lamport": min(send.lamport, _INT64) if send.HasField("lamport") else None,
        "history": list(send.causalHistory),
    },
    "deliver": lambda deliver: {
        "other": deliver.sender,
        "lamport": min(deliver.lamport, _INT64) if deliver.HasField("lamport") else None,
        "history": list(deliver.causalHistory),
        "position": min(deliver.position, _INT64) if deliver.HasField("position") else None,
        "lost": list(deliver.lost),
    },
    "ack": lambda ack: {
        "other": ack.by,
        "probability": ack.probability if ack.HasField("probability") else 0.0,
    },
    "missing": lambda missing: {"history": list(missing.dependencies)},
    "found": lambda found: {"after": found.after if found.HasField("after") else None},
    "lost": lambda lost: {},
    "expired": lambda expired: {},
}


def _json(message: Any) -> str:
    # Numbers stay numbers: JSON's rule for protobuf makes text of 64-bit ones.
    fields = MessageToDict(message, preserving_proto_field_name=True)
    numbers = {field.name for field in message.DESCRIPTOR.fields if field.cpp_type in (2, 4)}
    return json.dumps(
        {name: int(value) if name in numbers else value for name, value in fields.items()},
        sort_keys=True,
        default=as_text,
    )
