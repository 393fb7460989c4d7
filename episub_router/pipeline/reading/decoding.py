"""TraceEvents of go-libp2p-pubsub, with Episub's fields, as records, column by column: `ptars`
parses all events of one type at once into Arrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from ptars import HandlerPool

from episub_router.pb import trace_pb2
from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.pipeline.reading.batches import (
    Ints,
    assemble,
    constant,
    flags,
    parts_of,
    singles,
    where,
)
from episub_router.pipeline.reading.names import CACHED, as_text, message_name, peer_name
from episub_router.pipeline.record import PART, SDS, list_of
from episub_router.trace.kinds import CARRIER, OWN, TYPED, kind_of

LATEST = 1 << 62
"""ns since 1970: the year 2116. Differences of times before it can't overflow."""

OTHER = -1
"""In place of a `TraceEvent.Type`: a kind that only newer software knows."""

KINDS = {
    "publishMessage": "publish", "rejectMessage": "reject", "duplicateMessage": "duplicate",
    "deliverMessage": "deliver", "onNewOutboundStream": "stream-up",
    "onClosedOutboundStream": "stream-down", "recvRPC": "recv", "sendRPC": "send",
    "dropRPC": "drop", "sendRPCCompleted": "written",
}  # fmt: skip
"""Submessage to the kind of record; the others' names are the same."""

_COLUMNS = {
    "topic": "topic", "messageID": "message", "receivedFrom": "remote", "sendTo": "remote",
    "peerID": "remote", "reason": "reason", "state": "state", "kind": "kind", "region": "kind",
    "proto": "kind", "rtt": "rtt", "count": "count", "router": "kind",
}  # fmt: skip
"""Field of a submessage to column."""

_MESSAGES = frozenset(("publish", "reject", "duplicate", "deliver"))
_OR_NONE = {
    *((event, "remote") for event in _MESSAGES), ("neighbor", "reason"), ("discard", "remote"),
    ("discard", "topic"), ("discard", "message"),
}  # fmt: skip
"""Columns that are null where the event names nothing."""
_RPCS = frozenset(("send", "recv", "drop", "written"))
_LINKS = frozenset(("graft", "prune"))

_SHOWN = pa.array(["ihave", "iwant", "graft", "prune", "idontwant"])
"""Control messages that RPCMeta has; of Episub's, only the others are taken from their names."""

_BESIDE = ("payload", "frame", "tree")
"""Submessages that are there beside the one that an event is about."""

_PEERS = lru_cache(CACHED)(peer_name)


def _body_names(number: int) -> tuple[str, ...]:
    """The submessages that an event of this type may be about."""
    return (TYPED[number], *OWN) if number == CARRIER else (TYPED[number],)


@cache
def _handlers() -> list[Any]:
    """A parser for each type, of a message with what is read of its events, and text as bytes:
    damage may make it anything."""
    file = FileDescriptorProto(name="bytewise.proto")
    trace_pb2.DESCRIPTOR.CopyToProto(file)
    file.name, file.package = "bytewise.proto", "bytewise"

    def as_bytes(message: Any) -> None:
        for field in message.field:
            if field.type == FieldDescriptorProto.TYPE_STRING:
                field.type = FieldDescriptorProto.TYPE_BYTES
            if field.type_name:
                field.type_name = field.type_name.replace("episub.trace.pb", "bytewise")
        for nested in message.nested_type:
            as_bytes(nested)

    for message in file.message_type:
        as_bytes(message)
    fields = {field.name: field for field in file.message_type[0].field}
    for number in range(len(TYPED)):
        narrow = file.message_type.add(name=f"Event{number}")
        for name in ("type", "peerID", "timestamp", *_body_names(number), *_BESIDE):
            narrow.field.add().CopyFrom(fields[name])
    pool = DescriptorPool()
    pool.Add(file)
    handlers = HandlerPool([pool.FindFileByName(file.name)])
    names = [f"bytewise.Event{number}" for number in range(len(TYPED))]
    return [handlers.get_for_message(pool.FindMessageTypeByName(name)) for name in names]


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one `TraceEvent.Type`: their bytes, where they begin in which file."""

    number: int
    raw: pa.Array
    offsets: Ints
    files: pa.DictionaryArray

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, rows: Any) -> Events:
        """Those with these numbers."""
        chosen = pa.array(rows)
        return Events(
            self.number, self.raw.take(chosen), self.offsets[rows], self.files.take(chosen)
        )


class EventDecoder:
    """Makes records of a run's events; keeps the names of messages, and those of peers for as long
    as the process lives."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._ids = lru_cache(CACHED)(message_name)
        self._texts = lru_cache(CACHED)(lambda text: str(as_text(text)))

    def decode(self, events: Events, *, sound: bool = False) -> list[pa.RecordBatch]:
        """The records (`ENCODED`) of `events`. Raises DecodeError where one of them isn't of that
        type or, unless they are known to be `sound`, has anything that isn't in its record."""
        handler = _handlers()[max(events.number, 0)]
        try:
            found = handler.array_to_record_batch(events.raw)
        except ValueError as error:
            raise DecodeError(str(error)) from error
        if not sound:
            again = pc.binary_length(handler.record_batch_to_array(found))
            if not pc.equal(again, pc.binary_length(events.raw)).to_numpy(False).all():
                raise DecodeError("an event has more than was read of it")
        left = np.ones(len(found), dtype=bool)
        rows_of = {"other": np.arange(len(found) if events.number == OTHER else 0)}
        if events.number != OTHER:
            typed = flags(pc.equal(found.column("type"), events.number))
            for name in _body_names(events.number):
                there = typed & left & flags(pc.is_valid(found.column(name)))
                rows_of[name], left = np.flatnonzero(there), left & ~there
            if left.any():
                raise DecodeError("an event is of another type")
        batches: list[pa.RecordBatch] = []
        for name, rows in rows_of.items():
            if len(rows):
                of_kind = found if len(rows) == len(found) else found.take(pa.array(rows))
                batches += self._records(events.take(rows), name, of_kind)
        return batches

    def _records(
        self, events: Events, name: str, found: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """The records of events about the submessage `name`; those at impossible times are
        quarantined."""
        event, time = KINDS.get(name, name), found.column("timestamp")
        columns = {
            "event": constant(event, len(found)),
            "peer": _named(_present(found.column("peerID")), _PEERS),
            "time": time,
        }
        if event != "other":
            columns |= self._body(event, found.column(name), events)
            columns |= self._beside(event, found)
        if event in _RPCS:
            meta, frame = found.column(name).field("meta"), found.column("frame")
            columns["parts"] = self._parts(meta, frame)
        batch = assemble(self._run, events.files, events.offsets, columns)
        possible = flags(pc.and_(pc.greater_equal(time, 0), pc.less(time, LATEST)))
        if possible.all():
            yield batch
            return
        yield batch.filter(pa.array(possible))
        rest = events.take(np.flatnonzero(~possible))
        said = [
            "an event without a timestamp" if at is None else f"an event at {at} ns"
            for at in time.filter(pa.array(~possible)).to_pylist()
        ]
        unread = {"size": pc.binary_length(rest.raw), "detail": pa.array(said)}
        yield assemble(self._run, rest.files, rest.offsets, unread, "quarantined")

    def _body(self, event: str, body: Any, events: Events) -> dict[str, Any]:
        """The columns of a submessage's own fields."""
        made: dict[str, Any] = {}
        if event in ("header", "report"):
            parsed = [getattr(TraceEvent.FromString(raw), event) for raw in events.raw.to_pylist()]
            made["detail"] = pa.array([_json(one) for one in parsed])
            if event == "header":
                made["kind"] = pa.array([as_text(one.router) for one in parsed])
            return made
        for field in body.type:
            column, values = _COLUMNS.get(field.name), body.field(field.name)
            if column == "count":
                made[column] = pc.coalesce(_int32(values), pa.scalar(1, pa.int32()))
            elif column == "rtt":
                made[column] = values
            elif column is not None:
                # What is absent is empty, but where that says nothing.
                empty = pc.equal(values, b"")
                says_nothing = (event, column) in _OR_NONE or column == "kind"
                values = where(pc.invert(empty), values) if says_nothing else _present(values)
                names = {"remote": _PEERS, "message": self._ids}.get(column, self._texts)
                made[column] = _named(values, names)
        if event == "neighbor":
            made["state"] = pc.if_else(pc.fill_null(body.field("up"), False), "up", "down")
        elif event == "sds":
            sds = [_sds(TraceEvent.FromString(raw).sds) for raw in events.raw.to_pylist()]
            made["size"] = pa.array([one.pop("size", None) for one in sds], pa.int32())
            made["sds"] = pa.array(sds, SDS)
        return made

    def _beside(self, event: str, found: pa.RecordBatch) -> dict[str, Any]:
        """The columns of what is beside a submessage."""
        payload, frame, tree = (found.column(name) for name in _BESIDE)
        if event in _MESSAGES:
            return {name: _int32(payload.field(name)) for name in ("hops", "size")}
        if event in _LINKS:
            state = where(tree.is_valid(), _present(tree.field("state")))
            return {"state": _named(state, self._texts)}
        if event not in _RPCS:
            return {}
        made = {name: _int32(frame.field(name)) for name in ("hops", "size", "payload")}
        most = pa.scalar(2**63 - 1, pa.uint64())
        seq = pc.min_element_wise(frame.field("seq"), most, skip_nulls=False).cast(pa.int64())
        return made | {"seq": seq, "topic": _named(frame.field("topic"), self._texts)}

    def _parts(self, meta: Any, frame: Any) -> pa.Array:
        """What each RPC carried."""
        parts = _Parts(len(meta))
        topic, control = _named(frame.field("topic"), self._texts), meta.field("control")

        def topics(of: Any) -> pa.Array:
            return _named(_present(of.field("topic")), self._texts)

        def ids(lists: Any) -> pa.Array:
            return _mapped(lists, _named(lists.values, self._ids))

        messages, subscriptions = meta.field("messages"), meta.field("subscription")
        of = messages.values
        ids_of = _named(_present(of.field("messageID")), self._ids)
        parts.add("message", _rows(messages), topics(of), singles(ids_of.cast(pa.string())))
        of = subscriptions.values
        change = pc.if_else(pc.fill_null(of.field("subscribe"), False), "subscribe", "unsubscribe")
        parts.add(change, _rows(subscriptions), topics(of))
        of = control.field("ihave")
        parts.add("ihave", _rows(of), topics(of.values), ids(of.values.field("messageIDs")))
        grafts, wants, own = control.field("graft"), control.field("iwant"), frame.field("control")
        names = pc.utf8_lower(_named(own.values, self._texts).cast(pa.string()))
        # Episub asks by GRAFT, which the trace shows to Go's tools as an IWANT beside it.
        asks = np.zeros(len(meta), dtype=bool)
        asks[_rows(own)[flags(pc.equal(names, "graft"))]] = True
        wanted, starts = ids(wants.values.field("messageIDs")), wants.offsets.to_numpy()
        rows, place = _rows(grafts), _places(grafts)
        named = asks[rows] & (place < np.diff(starts)[rows])
        chosen = pa.array(np.where(named, starts[rows] + place, 0), mask=~named)
        parts.add("graft", rows, topics(grafts.values), wanted.take(chosen))
        rows = _rows(wants)
        plain = _places(wants) >= np.where(asks, np.diff(grafts.offsets.to_numpy()), 0)[rows]
        parts.add(
            "iwant", rows[plain], topic.take(pa.array(rows[plain])), wanted.filter(pa.array(plain))
        )
        of = control.field("prune")
        peers = of.values.field("peers")
        some = pc.greater(pc.list_value_length(peers), 0)
        exchanged = pc.if_else(some, _mapped(peers, _named(peers.values, _PEERS)), None)
        parts.add("prune", _rows(of), topics(of.values), peers=exchanged)
        of = control.field("idontwant")
        rows = _rows(of)
        parts.add("idontwant", rows, topic.take(pa.array(rows)), ids(of.values.field("messageIDs")))
        others = ~flags(pc.is_in(names, _SHOWN))
        rows = _rows(own)[others]
        parts.add(names.filter(pa.array(others)), rows, topic.take(pa.array(rows)))
        return parts.lists()


class _Parts:
    """The column `parts`, kind by kind."""

    def __init__(self, rows: int) -> None:
        self._counts = np.zeros(rows, dtype=np.int64)
        self._rows: list[Any] = []
        self._parts: list[pa.Array] = []

    def add(
        self,
        kind: str | pa.Array,
        rows: Any,
        topics: pa.Array,
        ids: pa.Array | None = None,
        peers: pa.Array | None = None,
    ) -> None:
        """A part of `kind` for each of `rows`, with its topic, ids and peers."""
        if len(rows):
            self._counts += np.bincount(rows, minlength=len(self._counts))
            self._rows.append(rows)
            if isinstance(kind, str):
                kind = pa.array([kind]).take(pa.array(np.zeros(len(rows), np.int32)))
            self._parts.append(parts_of(kind, topics.cast(pa.string()), ids, peers))

    def lists(self) -> pa.Array:
        """The column."""
        offsets = pa.array(np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int32))
        parts = pa.concat_arrays([pa.array([], PART), *self._parts])
        if len(self._rows) > 1:
            parts = parts.take(pa.array(np.argsort(np.concatenate(self._rows), kind="stable")))
        return pa.ListArray.from_arrays(offsets, parts, type=list_of(parts.type))


def _named(column: pa.Array, names: Callable[[bytes], str]) -> pa.Array:
    """The text of each of `column`, each different one made once."""
    encoded = column.dictionary_encode()
    made = [names(value) for value in encoded.dictionary.to_pylist()]
    found = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(made, pa.string()))
    # Two ids may read the same; Parquet wants each text once.
    return found if len(set(made)) == len(made) else found.cast(pa.string()).dictionary_encode()


def _rows(lists: pa.Array) -> Any:
    """The row of each thing in `lists`."""
    return np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))


def _places(lists: pa.Array) -> Any:
    """The place of each thing within its list."""
    offsets = lists.offsets.to_numpy()
    return np.arange(len(lists.values)) - np.repeat(offsets[:-1], np.diff(offsets))


def _mapped(lists: pa.Array, values: pa.Array) -> pa.Array:
    """`lists` with `values` in place of what is in them."""
    texts = values.cast(pa.string())
    return pa.ListArray.from_arrays(lists.offsets, texts, type=list_of(texts.type))


def _present(column: pa.Array) -> pa.Array:
    """Absent bytes as empty ones, which is what they stand for."""
    return pc.fill_null(column, b"")


def _int32(column: pa.Array) -> pa.Array:
    most = pa.scalar(2**31 - 1, pa.uint32())
    return pc.min_element_wise(column, most, skip_nulls=False).cast(pa.int32())


_SDS_COLUMNS = {
    "messageID": "message", "purpose": "purpose", "sender": "other", "by": "other",
    "causalHistory": "history", "dependencies": "history", "lost": "lost", "lamport": "lamport",
    "position": "position", "after": "after", "probability": "probability", "size": "size",
}  # fmt: skip
"""Field of an action of SDS to column."""
_LISTS = {"history", "lost"}
_MAYBE = {"lamport", "position", "after"}
_BOUNDS = {"lamport": 2**63 - 1, "position": 2**63 - 1, "size": 2**31 - 1}


def _sds(body: Any) -> dict[str, Any]:
    """The column `sds`, and `size`."""
    made: dict[str, Any] = {"channel": body.channelID, "participant": body.participant}
    for action in ("send", "deliver", "ack", "missing", "found", "lost", "expired"):
        if body.HasField(action):
            detail, made["action"] = getattr(body, action), action
            for field in detail.DESCRIPTOR.fields:
                column, value = _SDS_COLUMNS[field.name], getattr(detail, field.name)
                if column in _BOUNDS:
                    value = min(value, _BOUNDS[column])
                is_known = column not in _MAYBE or detail.HasField(field.name)
                made[column] = (list(value) if column in _LISTS else value) if is_known else None
    return {name: as_text(value) for name, value in made.items()}


def _json(message: Any) -> str:
    # Numbers stay numbers: JSON's rule for protobuf makes text of 64-bit ones.
    fields = MessageToDict(message, preserving_proto_field_name=True)
    numbers = {field.name for field in message.DESCRIPTOR.fields if field.cpp_type in (2, 4)}
    return json.dumps(
        {name: int(value) if name in numbers else value for name, value in fields.items()},
        sort_keys=True,
        default=as_text,
    )


def type_of(event: TraceEvent) -> int:
    """The `TraceEvent.Type` of an event that was read one by one, or OTHER."""
    return OTHER if kind_of(event) is None else int(event.type)
