"""Message <-> bytes in both published schemas (S01)."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.protocol.message import MAX_PARTS, HistoryEntry, Message, MessageId
from episub_router.sds.protocol.params import SdsParams, WireFormat
from episub_router.sds.wire.ids import pack_id, unpack_id

_ENTRY_TAGS = frozenset({0x0A, 0x12, 0x1A})


class SdsWireError(ValueError):
    """Bytes that are no acceptable message. `reason` counts it, `sender_id` names its sender."""

    def __init__(self, reason: str, detail: str, sender_id: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.sender_id = sender_id


class Codec:
    """Writes the schema that `params.wire` names and reads both."""

    def __init__(self, params: SdsParams) -> None:
        self._params = params

    def encode(self, message: Message) -> bytes:
        """The message in the configured schema.

        The seed's schema has neither sender nor repair request, its history is bare ids, and
        its clock keeps the low 32 bits, as two's complement.
        """
        seed = self._params.wire is WireFormat.SEED
        pb = sds_pb2.SdsMessage(
            message_id=message.message_id,
            channel_id=message.channel_id,
            bloom_filter=message.bloom_filter,
            content=message.content,
            more_history=[pack_id(i) for i in message.more_history],
            gaps=[pack_id(i) for i in message.gaps],
            gaps_more=message.gaps_more,
            since=message.since,
            part=message.part,
            parts=[pack_id(i) for i in message.parts],
        )
        if message.lamport is not None:
            pb.lamport_timestamp = _as_int32(message.lamport) if seed else message.lamport
        if seed:
            pb.causal_history.extend(e.message_id.encode() for e in message.causal_history)
        else:
            pb.sender_id = message.sender_id
            pb.causal_history.extend(
                _entry_to_pb(e).SerializeToString() for e in message.causal_history
            )
            pb.repair_request.extend(_entry_to_pb(e) for e in message.repair_request)
        return pb.SerializeToString()

    def decode(self, data: bytes) -> Message:
        """Read either schema. Raises SdsWireError for anything that is not a usable message."""
        params = self._params
        if len(data) > params.max_message:
            raise SdsWireError("oversized", f"{len(data)} bytes, at most {params.max_message}")
        try:
            pb = sds_pb2.SdsMessage.FromString(data)
        except DecodeError as error:
            raise SdsWireError("malformed", str(error)) from error
        sender = pb.sender_id
        if len(sender.encode()) > params.max_id:
            raise SdsWireError("bad-sender", f"sender_id longer than {params.max_id} bytes")
        self._check_id(pb.message_id, "message_id", sender)
        if len(pb.channel_id.encode()) > params.max_id:
            raise SdsWireError(
                "bad-channel", f"channel_id longer than {params.max_id} bytes", sender
            )
        entries = len(pb.causal_history) + len(pb.more_history)
        if entries > params.max_history:
            raise SdsWireError(
                "history-too-long", f"{entries} entries, at most {params.max_history}", sender
            )
        if len(pb.parts) > MAX_PARTS:
            raise SdsWireError("too-many-parts", f"{len(pb.parts)}, at most {MAX_PARTS}", sender)
        message = Message(
            message_id=pb.message_id,
            channel_id=pb.channel_id,
            sender_id=sender,
            lamport=pb.lamport_timestamp if pb.HasField("lamport_timestamp") else None,
            causal_history=tuple(self._history_entry(e, sender) for e in pb.causal_history),
            bloom_filter=pb.bloom_filter if pb.HasField("bloom_filter") else None,
            repair_request=tuple(
                self._checked(_entry_from_pb(e), sender)
                for e in pb.repair_request[: params.repair_honoured]
            ),
            content=pb.content if pb.HasField("content") else None,
            more_history=tuple(self._packed(i, sender) for i in pb.more_history),
            gaps=tuple(self._packed(i, sender) for i in pb.gaps[: params.gaps_named]),
            gaps_more=pb.gaps_more or len(pb.gaps) > params.gaps_named,
            since=pb.since,
            part=pb.part,
            parts=tuple(self._packed(i, sender) for i in pb.parts),
            seed=_is_seed(pb),
        )
        if message.kind is None:
            raise SdsWireError("empty", "neither lamport_timestamp nor content", sender)
        return message

    def _history_entry(self, data: bytes, sender: str) -> HistoryEntry:
        entry = _parse_entry(data)
        if entry is None:
            try:
                entry = HistoryEntry(data.decode())
            except UnicodeDecodeError as error:
                raise SdsWireError(
                    "bad-history", "an entry is neither HistoryEntry nor text", sender
                ) from error
        return self._checked(entry, sender)

    def _packed(self, data: bytes, sender: str) -> MessageId:
        message_id = unpack_id(data)
        if message_id is None:
            raise SdsWireError("bad-history", "an id is neither a digest nor text", sender)
        self._check_id(message_id, "history message_id", sender)
        return message_id

    def _checked(self, entry: HistoryEntry, sender: str) -> HistoryEntry:
        self._check_id(entry.message_id, "history message_id", sender)
        if entry.retrieval_hint is None and entry.sender_id is None:
            return entry
        if len(entry.retrieval_hint or b"") > self._params.max_hint:
            raise SdsWireError(
                "bad-history", f"retrieval_hint longer than {self._params.max_hint} bytes", sender
            )
        if len((entry.sender_id or "").encode()) > self._params.max_id:
            raise SdsWireError(
                "bad-history", f"sender_id longer than {self._params.max_id} bytes", sender
            )
        return entry

    def _check_id(self, message_id: str, field: str, sender: str) -> None:
        if not 0 < len(message_id.encode()) <= self._params.max_id:
            raise SdsWireError(
                "bad-id", f"{field} must have 1 to {self._params.max_id} bytes", sender
            )


def _is_seed(pb: sds_pb2.SdsMessage) -> bool:
    """Whether a message is in the first schema: no sender, and a clock that is an int32."""
    clock = pb.lamport_timestamp
    return not pb.sender_id and (clock < 2**31 or clock >= 2**64 - 2**31)


def peek_channel(data: bytes) -> str | None:
    """The channel that a message belongs to; None for bytes that are no message."""
    try:
        return sds_pb2.SdsMessage.FromString(data).channel_id
    except DecodeError:
        return None


def _parse_entry(data: bytes) -> HistoryEntry | None:
    """The entry, if the bytes are completely one. Only ids that start with a newline are both."""
    if not data or data[0] != 0x0A:
        return None
    if len(data) > 2 and data[1] == len(data) - 2 < 0x80:  # an id alone, as most are
        try:
            return HistoryEntry(data[2:].decode())
        except UnicodeDecodeError:
            return None
    if not _only_entry_fields(data):
        return None
    try:
        pb = sds_pb2.HistoryEntry.FromString(data)
    except DecodeError:
        return None
    return _entry_from_pb(pb) if pb.message_id else None


def _only_entry_fields(data: bytes) -> bool:
    """Whether the bytes are a sequence of fields 1, 2 and 3, each with a fitting length."""
    at = 0
    while at < len(data):
        if data[at] not in _ENTRY_TAGS:
            return False
        at += 1
        length = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                return False
            length |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                break
        at += length
    return at == len(data)


def _entry_to_pb(entry: HistoryEntry) -> sds_pb2.HistoryEntry:
    return sds_pb2.HistoryEntry(
        message_id=entry.message_id,
        retrieval_hint=entry.retrieval_hint,
        sender_id=entry.sender_id,
    )


def _entry_from_pb(pb: sds_pb2.HistoryEntry) -> HistoryEntry:
    return HistoryEntry(
        pb.message_id,
        pb.retrieval_hint if pb.HasField("retrieval_hint") else None,
        pb.sender_id if pb.HasField("sender_id") else None,
    )


def _as_int32(value: int) -> int:
    low = value & 0xFFFFFFFF
    return low if low < 2**31 else low | 0xFFFFFFFF_00000000
