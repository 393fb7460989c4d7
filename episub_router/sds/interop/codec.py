"""Messages of other implementations <-> bytes: both published schemas, with ids as told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.interop.bloom import FilterCodec, js_filter
from episub_router.sds.interop.dialect import InteropDialect
from episub_router.sds.protocol.message import HistoryEntry, Message
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.wire.codec import (
    Codec,
    SdsWireError,
    entry_from_pb,
    entry_to_pb,
    hash_of,
    is_nim,
    pack_id,
)

_NIM_ALWAYS = ("message_id", "lamport_timestamp", "channel_id", "content", "bloom_filter")
"""What nim-sds writes also where it is empty, which means that it isn't there."""


class WireFormat(Enum):
    """The schema that is written (S01). Both are always read, and our own as well."""

    CURRENT = "current"
    """The published schema: sender_id, HistoryEntry history, uint64 clock, repair_request."""
    SEED = "seed"
    """The first schema: history of plain ids and an int32 clock, no sender and no repair."""
    NIM = "nim"
    """nim-sds's own field numbers, with the fields of the current schema."""


@dataclass(frozen=True, slots=True)
class Interop:
    """What a channel writes. The default is what @waku/sds 0.0.8 reads: with a filter of any other
    size it drops a message.

    `history`: entries of a causal history; 2 leave 4 to 16 % of concurrent messages in nobody's.
    Heads beyond them go into a field that only this implementation reads. `segments`: each content
    is one of LIP-243's segments, as in LIP-173's Reliable Channel.
    """

    wire: WireFormat = WireFormat.CURRENT
    filters: FilterCodec = field(default_factory=lambda: js_filter(10_000, 0.001))
    history: int = 10
    segments: bool = False

    def codec(self, params: SdsParams, wall: Callable[[], int]) -> InteropCodec:
        return InteropCodec(params, self, wall)

    def dialect(self) -> InteropDialect:
        return InteropDialect(self.filters, self.history)


class InteropCodec(Codec):
    """A message's id is what it says. `wall` is the time of day in milliseconds, to which clocks of
    the first schema are nearest."""

    def __init__(self, params: SdsParams, interop: Interop, wall: Callable[[], int]) -> None:
        super().__init__(params)
        size = self.filter_size = interop.filters.geometry.size
        if params.max_message < 2 * size:
            raise ValueError(f"max_message must be twice the filter's {size} bytes at least")
        self.segments = interop.segments
        self._history, self._wire = interop.history, interop.wire
        self._wall = wall

    def _written(self, pb: sds_pb2.SdsMessage, message: Message) -> bytes:
        """In the configured schema.

        The seed's schema has neither sender nor repair request, its history is bare ids, and
        its clock keeps the low 32 bits, as two's complement.
        """
        entries = message.causal_history[: self._history]
        pb.message_id = message.message_id
        pb.history.extend(pack_id(e.message_id) for e in message.causal_history[self._history :])
        if message.bloom_filter is not None:
            pb.bloom_filter = message.bloom_filter
        if self._wire is WireFormat.SEED:
            pb.ClearField("sender_id")
            pb.ClearField("repair_request")
            pb.causal_history.extend(e.message_id.encode() for e in entries)
            if message.lamport is not None:
                pb.lamport_timestamp = _as_int32(message.lamport)
            return pb.SerializeToString()
        if self._wire is WireFormat.NIM:
            entries = tuple(map(_short, entries))
            del pb.repair_request[:]
            pb.repair_request.extend(entry_to_pb(_short(e)) for e in message.repair_request)
        pb.causal_history.extend(entry_to_pb(e).SerializeToString() for e in entries)
        if self._wire is not WireFormat.NIM:
            return pb.SerializeToString()
        nim = sds_pb2.NimSdsMessage()
        _copy_fields(pb, nim)
        for name in _NIM_ALWAYS:
            setattr(nim, name, getattr(pb, name))
        return nim.SerializeToString()

    def decode(self, data: bytes, near: int | None = None) -> Message:
        pb = self._parse(data)
        sender = pb.sender_id
        lamport = pb.lamport_timestamp if pb.HasField("lamport_timestamp") else None
        if lamport is not None and not sender and not 2**31 <= lamport < 2**64 - 2**31:
            lamport = unwrap_int32(lamport, self._wall() if near is None else near)
        if pb.message_id:
            self._check_id(pb.message_id, "message_id", sender)
        message = Message(
            message_id=pb.message_id or hash_of(data),
            lamport=lamport,
            causal_history=(
                *(self._entry(e, sender) for e in pb.causal_history),
                *(HistoryEntry(i) for i in self._ids(pb.history, sender)),
            ),
            bloom_filter=pb.bloom_filter if pb.HasField("bloom_filter") else None,
            **self._fields(pb),
        )
        return self._checked(message, "")

    def _parse(self, data: bytes) -> sds_pb2.SdsMessage:
        return super()._parse(_from_nim(data) if is_nim(data) else data)

    def _entry(self, data: bytes, sender: str) -> HistoryEntry:
        entry = _parse_entry(data)
        if entry is None:
            try:
                entry = HistoryEntry(data.decode())
            except UnicodeDecodeError as error:
                raise SdsWireError(
                    "bad-history", "an entry is neither HistoryEntry nor text", sender
                ) from error
        return self.checked_entry(entry, sender)


def _short(entry: HistoryEntry) -> HistoryEntry:
    return replace(
        entry,
        retrieval_hint=entry.retrieval_hint or None,
        sender_id=entry.sender_id or None,
    )


def _from_nim(data: bytes) -> bytes:
    """The same in the current schema."""
    try:
        nim: Any = sds_pb2.NimSdsMessage.FromString(data)
    except DecodeError as error:
        raise SdsWireError("malformed", str(error)) from error
    pb = sds_pb2.SdsMessage()
    for name in _NIM_ALWAYS:
        if not getattr(nim, name):
            nim.ClearField(name)
    _copy_fields(nim, pb)
    return pb.SerializeToString()


def _copy_fields(source: Any, target: Any) -> None:
    """What is set in one schema to the fields of the same name in the other."""
    for column, value in source.ListFields():
        if column.is_repeated:
            getattr(target, column.name).extend(value)
        elif column.message_type is not None:
            getattr(target, column.name).CopyFrom(value)
        else:
            setattr(target, column.name, value)


def _parse_entry(data: bytes) -> HistoryEntry | None:
    """The entry, if the bytes are completely one. Only ids that start with a newline are both."""
    if not data or data[0] != 0x0A:
        return None
    if len(data) > 2 and data[1] == len(data) - 2 < 0x80:  # an id alone, as most are
        try:
            return HistoryEntry(data[2:].decode())
        except UnicodeDecodeError:
            return None
    try:
        pb = sds_pb2.HistoryEntry.FromString(data)
    except DecodeError:
        return None
    pb.DiscardUnknownFields()
    known = pb.message_id and pb.SerializeToString() == data
    return entry_from_pb(pb) if known else None


def _as_int32(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low if low < 2**31 else low | 0xFFFFFFFF_00000000


def unwrap_int32(value: int, near: int) -> int:
    """The clock that a seed message means: its low 32 bits, taken nearest to `near`.

    The seed's schema keeps an int32 of a clock that starts at epoch time. Serial-number
    arithmetic (RFC 1982) tells clocks within ±24 days of each other apart.
    """
    low = value & 0xFFFFFFFF
    ahead = (low - near) & 0xFFFFFFFF
    return max(0, near + (ahead if ahead < 2**31 else ahead - 2**32))
