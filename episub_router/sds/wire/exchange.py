"""The messages of /sds/store/1.0.0 as values, and their bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.protocol.causal.log import Segment
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.message import MessageId
from episub_router.sds.protocol.reconciliation.catchup import HeadsAnswer
from episub_router.sds.store.base import StoredMessage
from episub_router.sds.wire.codec import SdsWireError

PROTOCOL = "/sds/store/1.0.0"
MAX_REQUEST = 65_536
MAX_GET = 100
_MAX_SEGMENTS = 64
_MAX_HEADS = 10_000


class ResponseStatus(IntEnum):
    """How a request went; the numbers are those of the wire."""

    UNSPECIFIED = 0
    OK = 1
    BAD_REQUEST = 2
    UNKNOWN_CHANNEL = 3
    TOO_MANY_REQUESTS = 4
    UNAVAILABLE = 5


@dataclass(frozen=True, slots=True)
class GetAsk:
    """These messages, by id or by the sha256 of their bytes."""

    ids: tuple[MessageId, ...] = ()
    hashes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeAsk:
    """The messages with after < key <= until, ascending; None is an open bound."""

    after: Key | None = None
    until: Key | None = None
    limit: int = MAX_GET
    ids_only: bool = False


@dataclass(frozen=True, slots=True)
class HeadsAsk:
    """The frontier, and the log in segments."""


Ask: TypeAlias = GetAsk | RangeAsk | HeadsAsk


@dataclass(frozen=True, slots=True)
class Request:
    topic: str
    channel_id: str
    ask: Ask


@dataclass(frozen=True, slots=True)
class Response:
    """`items` have empty bytes where only ids were asked for. `next`: go on after this key."""

    status: ResponseStatus = ResponseStatus.OK
    reason: str = ""
    items: tuple[StoredMessage, ...] = ()
    unknown_ids: tuple[MessageId, ...] = ()
    unknown_hashes: tuple[bytes, ...] = ()
    next: Key | None = None
    heads: HeadsAnswer | None = None
    retry_after: float = 0.0
    """Seconds after which to ask again, where the status says that it is too early."""


def encode_request(request: Request) -> bytes:
    pb = sds_pb2.StoreRequest(topic=request.topic, channel_id=request.channel_id)
    match request.ask:
        case GetAsk(ids=ids, hashes=hashes):
            pb.get.message_ids.extend(ids)
            pb.get.hashes.extend(hashes)
            pb.get.SetInParent()
        case RangeAsk(after=after, until=until, limit=limit, ids_only=ids_only):
            pb.range.limit = limit
            pb.range.ids_only = ids_only
            if after is not None:
                pb.range.after.CopyFrom(_key_to_pb(after))
            if until is not None:
                pb.range.until.CopyFrom(_key_to_pb(until))
        case HeadsAsk():
            pb.heads.SetInParent()
    return pb.SerializeToString()


def decode_request(data: bytes) -> Request:
    """Raises SdsWireError, with what is wrong, for anything else than a request."""
    try:
        pb = sds_pb2.StoreRequest.FromString(data)
    except DecodeError as error:
        raise SdsWireError("malformed", str(error)) from error
    kind = pb.WhichOneof("ask")
    ask: Ask
    if kind == "get":
        asked = len(pb.get.message_ids) + len(pb.get.hashes)
        if not 0 < asked <= MAX_GET:
            raise SdsWireError(
                "bad-request", f"get of {asked} messages, 1 to {MAX_GET} are allowed"
            )
        ask = GetAsk(tuple(pb.get.message_ids), tuple(pb.get.hashes))
    elif kind == "range":
        ask = RangeAsk(
            after=_key_from_pb(pb.range.after) if pb.range.HasField("after") else None,
            until=_key_from_pb(pb.range.until) if pb.range.HasField("until") else None,
            limit=min(pb.range.limit or MAX_GET, MAX_GET),
            ids_only=pb.range.ids_only,
        )
    elif kind == "heads":
        ask = HeadsAsk()
    else:
        raise SdsWireError("bad-request", "neither get, range nor heads")
    return Request(pb.topic, pb.channel_id, ask)


def encode_response(response: Response) -> bytes:
    pb = sds_pb2.StoreResponse(
        status=sds_pb2.StoreResponse.Status.ValueType(response.status),
        reason=response.reason,
        unknown_ids=response.unknown_ids,
        unknown_hashes=response.unknown_hashes,
        retry_after_ms=math.ceil(response.retry_after * 1000),
    )
    for item in response.items:
        part = pb.items.add(key=_key_to_pb(item.key), message=item.raw)
        if item.origin:
            part.origin.MergeFromString(item.origin)
    if response.next is not None:
        pb.next.CopyFrom(_key_to_pb(response.next))
    if response.heads is not None:
        pb.heads.count = response.heads.count
        pb.heads.heads.extend(_key_to_pb(k) for k in response.heads.heads[:_MAX_HEADS])
        for segment in response.heads.segments[:_MAX_SEGMENTS]:
            pb.heads.segments.add(
                after=None if segment.after is None else _key_to_pb(segment.after),
                until=_key_to_pb(segment.until),
                count=segment.count,
                fingerprint=segment.fingerprint,
            )
    return pb.SerializeToString()


def decode_response(data: bytes) -> Response:
    """Raises SdsWireError for anything else than a response."""
    try:
        pb = sds_pb2.StoreResponse.FromString(data)
    except DecodeError as error:
        raise SdsWireError("malformed", str(error)) from error
    if len(pb.items) > MAX_GET or len(pb.heads.segments) > _MAX_SEGMENTS:
        raise SdsWireError("oversized", f"{len(pb.items)} items, {len(pb.heads.segments)} segments")
    heads = None
    if pb.HasField("heads"):
        heads = HeadsAnswer(
            heads=tuple(_key_from_pb(k) for k in pb.heads.heads[:_MAX_HEADS]),
            count=pb.heads.count,
            segments=tuple(
                Segment(
                    after=_key_from_pb(s.after) if s.HasField("after") else None,
                    until=_key_from_pb(s.until),
                    count=s.count,
                    fingerprint=s.fingerprint,
                )
                for s in pb.heads.segments
            ),
        )
    return Response(
        status=_status(pb.status),
        reason=pb.reason,
        items=tuple(
            StoredMessage(
                _key_from_pb(i.key),
                i.message,
                i.origin.SerializeToString() if i.HasField("origin") else b"",
            )
            for i in pb.items
        ),
        unknown_ids=tuple(pb.unknown_ids),
        unknown_hashes=tuple(pb.unknown_hashes),
        next=_key_from_pb(pb.next) if pb.HasField("next") else None,
        heads=heads,
        retry_after=pb.retry_after_ms / 1000,
    )


def _key_to_pb(key: Key) -> sds_pb2.Key:
    return sds_pb2.Key(lamport=key[0], message_id=key[1])


def _key_from_pb(pb: sds_pb2.Key) -> Key:
    return (pb.lamport, pb.message_id)


def _status(number: int) -> ResponseStatus:
    try:
        return ResponseStatus(number)
    except ValueError:
        return ResponseStatus.UNSPECIFIED
