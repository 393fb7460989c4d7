"""Events as JSON, one per line, the way Go's `JSONTracer` writes them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import kind_of
from episub_router.trace.reading.frames import CONTRADICTORY, CUT_OFF, Record, Unreadable
from episub_router.trace.reading.pieces import Hole

MAX_LINE = 4 << 20
"""Bytes of the longest line that is read; an event of MAX_EVENT bytes has fewer."""

NOT_JSON = "not an event in JSON"
TOO_LONG = "no event has such a long line"

_OLD_NAMES = {"addPeer": "onNewOutboundStream", "removePeer": "onClosedOutboundStream"}
_OLD_TYPES = {"ADD_PEER": 4, "REMOVE_PEER": 5}
_BEGINNING = b'{"type":'

_CUTS = 16
"""How many events are looked for in a line that isn't one; bounds the time for a long one."""

_Fields: TypeAlias = "dict[str, _Field]"


def to_json(event: TraceEvent) -> str:
    """`event` on one line, without the line's end."""
    return json.dumps(_plain(event), separators=(",", ":"))


def from_json(text: str | bytes) -> TraceEvent:
    """The event in `text`; keys that we don't know are passed over, as Go's reader does.

    Raises ValueError, and RecursionError for absurd nesting.
    """
    try:
        return TraceEvent(**_fields(json.loads(text), _EVENT))
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _plain(message: Any) -> dict[str, Any]:
    return {
        field.name: [_value(field, item) for item in value]
        if field.is_repeated
        else _value(field, value)
        for field, value in message.ListFields()
    }


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b64encode(value).decode("ascii")
    return _plain(value) if field.message_type is not None else value


def _fields(value: Any, known: _Fields) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected here")
    fields = {}
    for key, item in value.items():
        field = known.get(key)
        if field is not None and item is not None:
            fields[field.name] = item if field.read is None else field.read(item)
    return fields


class _Field:
    """How the value of one key is read; None: as it is."""

    __slots__ = ("name", "read")

    def __init__(self, field: FieldDescriptor) -> None:
        self.name = field.name
        self.read: Callable[[Any], Any] | None = None
        if field.type == FieldDescriptor.TYPE_BYTES:
            self.read = partial(b64decode, validate=True)
        elif field.type == FieldDescriptor.TYPE_ENUM:
            self.read = _type
        elif field.message_type is not None:
            self.read = partial(_fields, known=_known(field.message_type))
        if field.is_repeated and (read := self.read) is not None:
            self.read = lambda items: [read(item) for item in items]


def _known(descriptor: Descriptor) -> _Fields:
    """The keys of a message."""
    known = {field.name: _Field(field) for field in descriptor.fields}
    return known | {old: known[new] for old, new in _OLD_NAMES.items() if new in known}


def _type(value: Any) -> int:
    if isinstance(value, str):
        return _OLD_TYPES[value] if value in _OLD_TYPES else TraceEvent.Type.Value(value)
    return int(value)


_EVENT = _known(TraceEvent.DESCRIPTOR)


def read_lines(pieces: Iterable[bytes | Hole]) -> Iterator[Record]:
    """All events in order and what lies between them, like `frames.read_frames`."""
    offset = 0
    damaged: tuple[int, Unreadable] | None = None
    """The last record, as long as it may turn out to be larger."""
    for line in _lines(pieces):
        for size, found in _records(line):
            if not isinstance(found, str):
                if damaged is not None:
                    yield damaged
                    damaged = None
                yield offset, found
            elif damaged is not None and isinstance(line, bytes) and line[:1] != b"{":
                # Damage has made a newline: both parts are one line.
                damaged = damaged[0], Unreadable(damaged[1].size + size, damaged[1].reason)
            else:
                if damaged is not None:
                    yield damaged
                damaged = offset, Unreadable(size, found)
            offset += size
        if line == b"\n":
            offset += 1
    if damaged is not None:
        yield damaged


def _lines(pieces: Iterable[bytes | Hole]) -> Iterator[bytes | int | Hole]:
    """Lines with their ends; instead of what is longer than MAX_LINE, its size."""
    rest = b""
    passed = 0
    for piece in pieces:
        if isinstance(piece, Hole):
            if rest or passed:
                yield passed + len(rest) if passed else rest
            rest, passed = b"", 0
            yield piece
            continue
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield passed + len(line) + 1 if passed else line + b"\n"
            passed = 0
        if passed or len(rest) > MAX_LINE:
            passed += len(rest)
            rest = b""
    if rest or passed:
        yield passed + len(rest) if passed else rest


def _records(line: bytes | int | Hole) -> list[tuple[int, TraceEvent | str]]:
    """What is in `line`, with sizes; usually one event."""
    if isinstance(line, Hole):
        return [(0, line.reason)]
    if isinstance(line, int):
        return [(line, TOO_LONG)]
    event = _event(line)
    if not isinstance(event, str):
        return [(len(line), event)]
    if line == b"\n":
        return []
    # Where a newline was damaged, one line holds more than one event.
    found: list[tuple[int, TraceEvent | str]] = []
    for _ in range(_CUTS):
        cut = line.rfind(_BEGINNING)
        after = _event(line[cut:]) if cut > 0 else CUT_OFF
        if isinstance(after, str):
            break
        found.insert(0, (len(line) - cut, after))
        line = line[:cut]
    if not found:
        return [(len(line), event if line.endswith(b"\n") else CUT_OFF)]
    return [(len(line), _event(line[:-1])), *found]


def _event(line: bytes) -> TraceEvent | str:
    """The event in `line`, or why there is none."""
    try:
        event = from_json(line)
    except (ValueError, RecursionError):
        return NOT_JSON
    return event if kind_of(event) is not None else CONTRADICTORY
