"""Records of the frequent kinds of event, made by the column.

A row is certain if it has all that its kind needs and nothing else: its fields as they were parsed
add up to as many bytes as it has. All others are left to `protobuf`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episub_router.pipeline.reading.encoding import ENCODED
from episub_router.pipeline.reading.framing import Ints
from episub_router.pipeline.reading.names import Names
from episub_router.pipeline.reading.narrow import BODIES, parse
from episub_router.pipeline.record import PART, TEXTS, list_of

LATEST = 1 << 62
"""ns since 1970: the year 2116. Differences of times before it can't overflow."""

_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_VARINTS = np.array([1 << 7 * digits for digits in range(1, 9)], dtype=np.int64)
_LONGEST = 127
"""Bytes of an id or a topic: the length before it is one byte."""

_PLAIN = pa.array([b"IHAVE", b"IWANT"])
"""Control messages whose ids are all that there is to say."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The run of these records, and the names that were made of bytes so far."""

    run: str
    peers: Names
    ids: Names
    topics: Names


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one kind: their bytes, where they begin in which file (its place in `names`)."""

    raw: pa.Array
    offsets: Ints
    files: Any
    names: pa.Array


class _TooLong(Exception):
    """A text is longer than _LONGEST."""


def decode(origin: Origin, kind: int, events: Events) -> tuple[pa.RecordBatch | None, Ints]:
    """The records (`ENCODED`) of those of `events`, of `TraceEvent.Type` `kind`, that are certain,
    and the places of the others; no records where one event keeps others from being read."""
    rows = len(events.raw)
    name, body, _ = BODIES[kind]
    try:
        fields = _Fields(parse(kind, events.raw), _lengths(events.raw))
        made = _rpc(fields, origin) if body == "Rpc" else _message(fields, origin)
    except (ValueError, _TooLong):
        return None, np.arange(rows)
    columns = {
        "run": _constant(origin.run, rows),
        "status": _constant("event", rows),
        "file": pa.DictionaryArray.from_arrays(events.files, events.names),
        "offset": pa.array(events.offsets, pa.int64()),
        "event": _constant(name, rows),
        "peer": _named(fields.peer, origin.peers),
        "time": fields.time,
        "late": pa.array(np.zeros(rows, dtype=bool)),
        **made,
    }
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
        for field in ENCODED
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=ENCODED)
    certain = fields.certain()
    if not certain.all():
        batch = batch.filter(pa.array(certain))
    return batch, np.flatnonzero(~certain)


class _Fields:
    """The events of one kind; adds up what their fields take, and which have all that they need."""

    def __init__(self, events: pa.RecordBatch, sizes: Ints) -> None:
        self.events = events
        self.body = events.column("body")
        self.time = events.column("time")
        time = pc.fill_null(self.time, -1).to_numpy()
        self._there = (time >= 0) & (time < LATEST)
        self.peer = self.needed(events.column("peer"))
        # What the type and the tag of the time take is the same in all.
        self._left = sizes - 3 - _varint(np.maximum(time, 0)) - text(self.peer)

    def needed(self, column: pa.Array) -> pa.Array:
        """`column`, which a row must have, and not empty."""
        self._there &= pc.fill_null(pc.greater(pc.binary_length(column), 0), False).to_numpy(
            zero_copy_only=False
        )
        return column

    def take(self, size: Ints) -> None:
        """`size` bytes of each row are known."""
        self._left = self._left - size

    def doubt(self, rows: Any) -> None:
        """The rows with these numbers are to be looked at one by one."""
        self._there[rows] = False

    def certain(self) -> Any:
        """Whether each row is."""
        return self._there & (self._left == 0)


def _message(fields: _Fields, origin: Origin) -> dict[str, pa.Array]:
    body = fields.body
    ids, topic = fields.needed(body.field("id")), fields.needed(body.field("topic"))
    inner = text(ids) + text(topic)
    made = {"message": _named(ids, origin.ids), "topic": _named(topic, origin.topics)}
    if body.type.get_field_index("remote") >= 0:
        remote = fields.needed(body.field("remote"))
        inner = inner + text(remote)
        made["remote"] = _named(remote, origin.peers)
    fields.take(1 + _varint(inner) + inner)
    payload = fields.events.column("payload")
    hops, size = payload.field("hops"), payload.field("size")
    fields.take(np.where(_valid(payload), 3 + _number(hops) + _number(size), 0))
    return {**made, "hops": _int32(hops), "size": _int32(size)}


def _rpc(fields: _Fields, origin: Origin) -> dict[str, pa.Array]:
    remote, meta = fields.needed(fields.body.field("remote")), fields.body.field("meta")
    frame, rows = fields.events.column("frame"), len(fields.events)
    messages, control = meta.field("messages"), meta.field("control")
    ihave, iwant = control.field("ihave"), control.field("iwant")

    def inside(lists: pa.Array, size: Ints) -> Ints:
        """The sum of the fields in each of `lists`, which take `size` bytes each inside."""
        return _sums(lists, 1 + _varint(size) + size)

    def ids_of(lists: pa.Array) -> Ints:
        return _sums(lists, text(lists.values))

    message, announced, wanted = messages.values, ihave.values, iwant.values
    for lists, column in (
        (messages, message.field("id")), (messages, message.field("topic")),
        (ihave, announced.field("topic")),
    ):  # fmt: skip
        fields.doubt(_rows(lists)[~_valid(column)])
    asked = inside(ihave, text(announced.field("topic")) + ids_of(announced.field("ids")))
    asked = asked + inside(iwant, ids_of(wanted.field("ids")))
    inner = inside(messages, text(message.field("id")) + text(message.field("topic")))
    inner = inner + np.where(_valid(control), 1 + _varint(asked) + asked, 0)
    inner = text(remote) + np.where(_valid(meta), 1 + _varint(inner) + inner, 0)
    fields.take(1 + _varint(inner) + inner)
    names = frame.field("control")
    fields.doubt(_rows(names)[~pc.is_in(names.values, _PLAIN).to_numpy(zero_copy_only=False)])
    hops = frame.field("ihaveHops")
    lengths = _lengths(hops)
    inner = np.where(_valid(hops), 1 + _varint(lengths) + lengths, 0) + ids_of(names)
    inner = inner + text(frame.field("topic"))
    for name in ("size", "payload", "seq", "hops"):
        inner = inner + _number(frame.field(name))
    fields.take(np.where(_valid(frame), 2 + _varint(inner) + inner, 0))
    topic = _named(frame.field("topic"), origin.topics)
    parts = _Parts(rows, origin)
    parts.add("message", messages, message.field("topic"), _singles(message.field("id")))
    parts.add("ihave", ihave, announced.field("topic"), announced.field("ids"))
    parts.add("iwant", iwant, frame.field("topic").take(_rows(iwant)), wanted.field("ids"))
    return {
        "remote": _named(remote, origin.peers),
        "topic": topic,
        "hops": _int32(frame.field("hops")),
        "size": _int32(frame.field("size")),
        "payload": _int32(frame.field("payload")),
        "seq": pc.min_element_wise(
            frame.field("seq"), pa.scalar(_INT64, pa.uint64()), skip_nulls=False
        ).cast(pa.int64()),
        "parts": parts.lists(),
    }


class _Parts:
    """The column `parts`, kind by kind."""

    def __init__(self, rows: int, origin: Origin) -> None:
        self._counts = np.zeros(rows, dtype=np.int64)
        self._origin = origin
        self._rows: list[Any] = []
        self._kinds: list[pa.Array] = []
        self._topics: list[pa.Array] = []
        self._ids: list[pa.Array] = []

    def add(self, kind: str, lists: pa.Array, topics: pa.Array, ids: pa.Array) -> None:
        """A part of `kind` for each that is in one of `lists`, with its topic and ids."""
        rows = _rows(lists)
        if len(rows):
            self._counts += np.bincount(rows, minlength=len(self._counts))
            self._rows.append(rows)
            self._kinds.append(pa.array([kind]).take(pa.array(np.zeros(len(rows), np.int32))))
            self._topics.append(_named(topics, self._origin.topics).cast(pa.string()))
            names = _named(ids.values, self._origin.ids).cast(pa.string())
            self._ids.append(pa.ListArray.from_arrays(ids.offsets, names, type=TEXTS))

    def lists(self) -> pa.Array:
        """The column."""
        offsets = pa.array(np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int32))
        if not self._rows:
            return pa.ListArray.from_arrays(offsets, pa.array([], PART), type=list_of(PART))
        columns = [pa.concat_arrays(column) for column in (self._kinds, self._topics, self._ids)]
        columns.append(pa.nulls(len(columns[0]), TEXTS))
        parts = pa.StructArray.from_arrays(columns, fields=list(PART))
        if len(self._rows) > 1:
            parts = parts.take(pa.array(np.argsort(np.concatenate(self._rows), kind="stable")))
        return pa.ListArray.from_arrays(offsets, parts, type=list_of(PART))


def text(column: pa.Array) -> Ints:
    """Bytes of each field of `column`, with tag and length; 0 where it is absent. Raises
    _TooLong."""
    lengths = _lengths(column)
    if lengths.max(initial=0) > _LONGEST:
        raise _TooLong
    return np.where(_valid(column), lengths + 2, 0)


def _lengths(column: pa.Array) -> Ints:
    """Bytes of each of `column`; 0 where it is absent."""
    return pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)


def _number(column: pa.Array) -> Ints:
    """Bytes of each number of `column`, with its tag; 0 where it is absent."""
    values = pc.min_element_wise(
        pc.fill_null(column.cast(pa.uint64()), 0), pa.scalar(_INT64, pa.uint64())
    )
    return np.where(_valid(column), 1 + _varint(values.cast(pa.int64()).to_numpy()), 0)


def _varint(values: Ints) -> Ints:
    """Bytes of each value as a varint."""
    return np.searchsorted(_VARINTS, values, side="right") + 1


def _valid(column: pa.Array) -> Any:
    return pc.is_valid(column).to_numpy(zero_copy_only=False)


def _rows(lists: pa.Array) -> Any:
    """The row of each thing in `lists`."""
    return np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))


def _sums(lists: pa.Array, size: Ints) -> Ints:
    """The sum of `size`, which has one number for each thing in `lists`, for each list."""
    so_far = np.concatenate([[0], np.cumsum(size)])
    offsets = lists.offsets.to_numpy()
    return so_far[offsets[1:]] - so_far[offsets[:-1]]


def _singles(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values)


def _named(column: pa.Array, names: Names) -> pa.Array:
    """The text of each of `column`, each different one made once."""
    encoded = column.dictionary_encode()
    made = [names[value] for value in encoded.dictionary.to_pylist()]
    found = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(made, pa.string()))
    # Two ids may read the same; Parquet wants each text once.
    return found if len(set(made)) == len(made) else found.cast(pa.string()).dictionary_encode()


def _constant(value: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [value])


def _int32(column: pa.Array) -> pa.Array:
    most = pa.scalar(_INT32, pa.uint32())
    return pc.min_element_wise(column, most, skip_nulls=False).cast(pa.int32())
