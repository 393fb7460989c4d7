"""Message <-> bytes (S01). A message's id is the hash of its bytes, which name everything else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.protocol.message import (
    HistoryEntry,
    Kind,
    Message,
    MessageId,
    Segment,
)
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.participant import HONOURED, MAX_GAPS, MAX_HEADS

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST, _TEXT = b"\x01", b"\x00"


def pack_id(message_id: MessageId) -> bytes:
    """A byte 1 and the 32 bytes of a sha256 in hex; a byte 0 and the text of any other id."""
    if _SHA256.fullmatch(message_id):
        return _DIGEST + bytes.fromhex(message_id)
    return _TEXT + message_id.encode()


def unpack_id(data: bytes) -> MessageId | None:
    """The id; None where the bytes are none."""
    kind, rest = data[:1], data[1:]
    if kind == _DIGEST:
        return rest.hex() if len(rest) == 32 else None
    if kind != _TEXT:
        return None
    try:
        return rest.decode()
    except UnicodeDecodeError:
        return None


def is_nim(data: bytes) -> bool:
    """Whether a message begins as nim-sds's do: field 1 as text, and then field 2 as a number."""
    at, length, shift = 1, 0, 0
    if data[:1] != b"\x0a":
        return False
    while at < len(data) and shift <= 28:
        length |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return data[at + length : at + length + 1] == b"\x10"
    return False


MAX_ID = 256
"""Bytes of an id, of a sender or a channel (chosen): four times a hex sha256."""
MAX_SEGMENTS = 256
"""Of one content, as LIP-243 recommends."""
DIGEST_SIZE = 32
_ORIGIN_TAG = bytes([0xA2, 0x06])
"""Field 100 with a length: the author's proof, last in a message that another member repairs."""


class SdsWireError(ValueError):
    """Bytes that are no acceptable message. `reason` counts it, `sender_id` names its sender."""

    def __init__(self, reason: str, detail: str, sender_id: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.sender_id = sender_id


def hash_of(data: bytes) -> MessageId:
    """The id of a message with these bytes."""
    return hashlib.sha256(data).hexdigest()


class Codec:
    """The messages of this implementation. `episub_router.sds.interop` has one for others' too."""

    def __init__(self, params: SdsParams) -> None:
        self._params = params
        self.segments = False
        """Whether each content is a segment, also where it is the only one."""
        self.filter_size = 0
        """Bytes of the filter of received ids that each message has."""

    def encode(self, message: Message) -> tuple[bytes, MessageId]:
        """The bytes of a message, and the id that these give it.

        Only an ephemeral message carries an id, so that equal ones can be told apart.
        """
        content, segment = message.content, message.segment
        if segment is not None:
            content = write_segment(segment, content or b"")
        pb = sds_pb2.SdsMessage(
            sender_id=message.sender_id,
            channel_id=message.channel_id,
            lamport_timestamp=message.lamport,
            repair_request=map(entry_to_pb, message.repair_request),
            content=content,
            gaps=map(pack_id, message.gaps),
            gaps_more=message.gaps_more,
            since=message.since,
            snapshot=message.snapshot,
            segment=segment is not None,
        )
        raw = self._written(pb, message)
        return raw, pb.message_id or hash_of(raw)

    def _written(self, pb: sds_pb2.SdsMessage, message: Message) -> bytes:
        """With the message's id and its history."""
        pb.message_id = message.message_id if message.kind is Kind.EPHEMERAL else ""
        pb.history.extend(pack_id(e.message_id) for e in message.causal_history)
        return pb.SerializeToString()

    def decode(self, data: bytes, near: int | None = None) -> Message:
        """The message. Raises SdsWireError for anything that is not a usable one.

        `near`: a clock near to the message's, where it was known already.
        """
        pb = self._parse(data)
        sender = pb.sender_id
        if pb.causal_history or pb.HasField("bloom_filter"):
            raise SdsWireError("foreign", "a message of another implementation", sender)
        return self._checked(
            Message(
                message_id=hash_of(data),
                lamport=pb.lamport_timestamp if pb.HasField("lamport_timestamp") else None,
                causal_history=tuple(HistoryEntry(i) for i in self._ids(pb.history, sender)),
                **self._fields(pb),
            ),
            pb.message_id,
        )

    def _checked(self, message: Message, named: MessageId) -> Message:
        """`named`: the id that it carries."""
        if message.kind is None:
            raise SdsWireError("empty", "neither lamport_timestamp nor content", message.sender_id)
        if message.kind is Kind.EPHEMERAL and named:
            self._check_id(named, "message_id", message.sender_id)
            return replace(message, message_id=named)
        if named:
            detail = "a message carries an id, which might be another one's"
            raise SdsWireError("foreign", detail, message.sender_id)
        return message

    def _parse(self, data: bytes) -> sds_pb2.SdsMessage:
        if len(data) > self._params.max_message:
            raise SdsWireError(
                "oversized", f"{len(data)} bytes, at most {self._params.max_message}"
            )
        try:
            pb = sds_pb2.SdsMessage.FromString(data)
        except DecodeError as error:
            raise SdsWireError("malformed", str(error)) from error
        sender = pb.sender_id
        if len(sender.encode()) > MAX_ID:
            raise SdsWireError("bad-sender", f"sender_id longer than {MAX_ID} bytes")
        if len(pb.channel_id.encode()) > MAX_ID:
            raise SdsWireError("bad-channel", f"channel_id longer than {MAX_ID} bytes", sender)
        entries = len(pb.causal_history) + len(pb.history)
        if entries > MAX_HEADS:
            raise SdsWireError(
                "history-too-long", f"{entries} entries, at most {MAX_HEADS}", sender
            )
        return pb

    def _fields(self, pb: sds_pb2.SdsMessage) -> dict[str, Any]:
        """The fields that are the same in all schemas."""
        sender = pb.sender_id
        content, segment = pb.content if pb.HasField("content") else None, None
        if content and (pb.segment or self.segments):
            content, segment = read_segment(content)
        return {
            "channel_id": pb.channel_id,
            "sender_id": sender,
            "repair_request": tuple(
                self.checked_entry(entry_from_pb(e), sender) for e in pb.repair_request[:HONOURED]
            ),
            "content": content,
            "segment": segment,
            "gaps": tuple(self._ids(pb.gaps[:MAX_GAPS], sender)),
            "gaps_more": pb.gaps_more or len(pb.gaps) > MAX_GAPS,
            "since": pb.since,
            "snapshot": pb.snapshot,
        }

    def _ids(self, packed: Iterable[bytes], sender: str) -> list[MessageId]:
        result = []
        for data in packed:
            message_id = unpack_id(data)
            if message_id is None:
                raise SdsWireError("bad-history", "an id is neither a digest nor text", sender)
            self._check_id(message_id, "history message_id", sender)
            result.append(message_id)
        return result

    def checked_entry(self, entry: HistoryEntry, sender: str) -> HistoryEntry:
        """The same entry. Raises SdsWireError where a part of it is too long."""
        self._check_id(entry.message_id, "history message_id", sender)
        hint, named = len(entry.retrieval_hint or b""), len((entry.sender_id or "").encode())
        if max(hint, named) > MAX_ID:
            detail = f"a hint of {hint}, a sender_id of {named} bytes, at most {MAX_ID}"
            raise SdsWireError("bad-history", detail, sender)
        return entry

    def _check_id(self, message_id: str, field: str, sender: str) -> None:
        if not 0 < len(message_id.encode()) <= MAX_ID:
            raise SdsWireError("bad-id", f"{field} must have 1 to {MAX_ID} bytes", sender)


def write_segment(segment: Segment, payload: bytes) -> bytes:
    return sds_pb2.Segment(
        entire_message_hash=segment.digest,
        index=segment.index,
        segment_count=segment.count,
        payload=payload,
        payload_length=segment.length,
    ).SerializeToString()


def read_segment(content: bytes) -> tuple[bytes, Segment]:
    """The payload, and what it is a part of; where the content is no data segment, itself."""
    try:
        pb = sds_pb2.Segment.FromString(content)
    except DecodeError:
        return content, Segment()
    good = len(pb.entire_message_hash) == DIGEST_SIZE and pb.index < pb.segment_count
    if not good or pb.segment_count > MAX_SEGMENTS or pb.is_parity or not pb.payload:
        return content, Segment()
    return pb.payload, Segment(
        pb.entire_message_hash, pb.index, pb.segment_count, pb.payload_length
    )


def peek_channel(data: bytes) -> str | None:
    """The channel that a message belongs to; None for bytes that are no message."""
    kind = sds_pb2.NimSdsMessage if is_nim(data) else sds_pb2.SdsMessage
    try:
        return kind.FromString(data).channel_id
    except DecodeError:
        return None


def entry_to_pb(entry: HistoryEntry) -> sds_pb2.HistoryEntry:
    return sds_pb2.HistoryEntry(
        message_id=entry.message_id,
        retrieval_hint=entry.retrieval_hint,
        sender_id=entry.sender_id,
    )


def entry_from_pb(pb: sds_pb2.HistoryEntry) -> HistoryEntry:
    return HistoryEntry(
        pb.message_id,
        pb.retrieval_hint if pb.HasField("retrieval_hint") else None,
        pb.sender_id if pb.HasField("sender_id") else None,
    )


def attach_origin(raw: bytes, origin: bytes) -> bytes:
    """A message of another author with its proof. Nothing is added where there is none."""
    return raw + _field(sds_pb2.Origin.FromString(origin)) if origin else raw


def detach_origin(data: bytes) -> tuple[bytes, bytes]:
    """The author's bytes and the proof, which is empty where none came with them.

    Raises SdsWireError where the proof isn't the last field.
    """
    if _ORIGIN_TAG not in data:
        return data, b""
    try:
        pb = sds_pb2.SdsMessage.FromString(data)
    except DecodeError as error:
        raise SdsWireError("malformed", str(error)) from error
    if not pb.HasField("origin"):
        return data, b""
    end = _field(pb.origin)
    if not data.endswith(end):
        raise SdsWireError("malformed", "the author's proof is not the last field", pb.sender_id)
    return data[: -len(end)], pb.origin.SerializeToString()


def _field(origin: sds_pb2.Origin) -> bytes:
    return sds_pb2.SdsMessage(origin=origin).SerializeToString()
