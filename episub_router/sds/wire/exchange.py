"""The messages of /sds/store as values, and their bytes."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.protocol.effects import (
    Ask,
    AskCompare,
    AskIds,
    AskRange,
    AskSnapshot,
    PeerRef,
    Response,
    ResponseStatus,
)
from episub_router.sds.protocol.entry import Key, RangeHash, StoredMessage
from episub_router.sds.protocol.message import MessageId
from episub_router.sds.protocol.ranges import (
    FANOUT,
    LEAF,
    MAX_RANGES,
    SALT_SIZE,
    LogComparison,
    disjoint,
)
from episub_router.sds.wire.codec import SdsWireError, hash_of, pack_id, unpack_id

PROTOCOL = "/sds/store/3.0.0"
MAX_REQUEST = 65_536
MAX_GET = 100
MAX_PAGE = 4000
_MAX_PARTS = MAX_RANGES * FANOUT
_MAX_KEYS = MAX_RANGES * LEAF


@dataclass(frozen=True, slots=True)
class Request:
    topic: str
    channel_id: str
    ask: Ask


def encode_request(request: Request) -> bytes:
    pb = sds_pb2.StoreRequest(topic=request.topic, channel_id=request.channel_id)
    match request.ask:
        case AskIds(ids=ids):
            pb.get.ids.extend(map(pack_id, ids))
            pb.get.SetInParent()
        case AskRange(after=after, until=until, limit=limit) as span:
            pb.range.limit = limit
            pb.range.ids_only = span.ids_only
            pb.range.newest_first = span.newest_first
            if after is not None:
                pb.range.after.CopyFrom(_key_to_pb(after))
            if until is not None:
                pb.range.until.CopyFrom(_key_to_pb(until))
        case AskCompare(salt=salt, ranges=ranges):
            pb.compare.salt = salt
            for part in ranges:
                pb.compare.ranges.append(_hash_to_pb(part))
        case AskSnapshot(signers=signers, offset=offset):
            pb.snapshot.signers = signers
            pb.snapshot.offset = offset
    return pb.SerializeToString()


def decode_request(data: bytes, peer: PeerRef) -> Request:
    """What `peer` asks. Raises SdsWireError, with what is wrong, for what is no request."""
    try:
        pb = sds_pb2.StoreRequest.FromString(data)
    except DecodeError as error:
        raise SdsWireError("malformed", str(error)) from error
    kind = pb.WhichOneof("ask")
    ask: Ask
    if kind == "get":
        asked = len(pb.get.ids)
        if not 0 < asked <= MAX_GET:
            raise SdsWireError(
                "bad-request", f"get of {asked} messages, 1 to {MAX_GET} are allowed"
            )
        ask = AskIds(peer, tuple(map(_id_from_pb, pb.get.ids)))
    elif kind == "range":
        ask = AskRange(
            peer,
            min(pb.range.limit or MAX_PAGE, MAX_PAGE),
            after=_key_from_pb(pb.range.after) if pb.range.HasField("after") else None,
            until=_key_from_pb(pb.range.until) if pb.range.HasField("until") else None,
            ids_only=pb.range.ids_only,
            newest_first=pb.range.newest_first,
        )
    elif kind == "compare":
        ask = _compare_from_pb(pb.compare, peer)
    elif kind == "snapshot":
        ask = AskSnapshot(peer, max(1, pb.snapshot.signers), pb.snapshot.offset)
    else:
        raise SdsWireError("bad-request", "neither get, range, compare nor snapshot")
    return Request(pb.topic, pb.channel_id, ask)


def encode_response(response: Response) -> bytes:
    pb = sds_pb2.StoreResponse(
        status=sds_pb2.StoreResponse.Status.ValueType(response.status),
        reason=response.reason,
        unknown=map(pack_id, response.unknown_ids),
        state=response.state,
        state_size=response.state_size,
    )
    for item in response.items:
        part = pb.items.add(place=_key_to_pb(item.key, item.raw), message=item.raw)
        if item.origin:
            part.origin.MergeFromString(item.origin)
    if response.next is not None:
        pb.next.CopyFrom(_key_to_pb(response.next))
    if response.gone is not None:
        pb.gone.CopyFrom(_key_to_pb(response.gone))
    if response.comparison is not None:
        _comparison_to_pb(response.comparison, pb.comparison)
    return pb.SerializeToString()


def decode_response(data: bytes) -> Response:
    """Raises SdsWireError for anything else than a response."""
    try:
        pb = sds_pb2.StoreResponse.FromString(data)
    except DecodeError as error:
        raise SdsWireError("malformed", str(error)) from error
    if len(pb.items) > MAX_PAGE:
        raise SdsWireError("oversized", f"{len(pb.items)} items")
    return Response(
        status=ResponseStatus(pb.status),
        reason=pb.reason,
        items=tuple(
            StoredMessage(
                _key_from_pb(i.place, i.message),
                i.message,
                i.origin.SerializeToString() if i.HasField("origin") else b"",
            )
            for i in pb.items
        ),
        unknown_ids=tuple(map(_id_from_pb, pb.unknown)),
        next=_key_from_pb(pb.next) if pb.HasField("next") else None,
        comparison=_comparison_from_pb(pb.comparison) if pb.HasField("comparison") else None,
        gone=_key_from_pb(pb.gone) if pb.HasField("gone") else None,
        state=pb.state,
        state_size=pb.state_size,
    )


def _key_to_pb(key: Key, raw: bytes = b"") -> sds_pb2.Key:
    """Without the id where `raw`, which goes with it, says it."""
    said = bool(raw) and hash_of(raw) == key[1]
    return sds_pb2.Key(lamport=key[0], id=b"" if said else pack_id(key[1]))


def _key_from_pb(pb: sds_pb2.Key, raw: bytes = b"") -> Key:
    return (pb.lamport, hash_of(raw) if raw and not pb.id else _id_from_pb(pb.id))


def _hash_to_pb(part: RangeHash, before: Key | None = None) -> sds_pb2.RangeHash:
    """`before`: where the part before it ends, which needn't be said."""
    pb = sds_pb2.RangeHash(count=part.count, hash=part.hash, open=part.after is None)
    if part.after is not None and part.after != before:
        pb.after.CopyFrom(_key_to_pb(part.after))
    if part.until is not None:
        pb.until.CopyFrom(_key_to_pb(part.until))
    return pb


def _hash_from_pb(pb: sds_pb2.RangeHash, before: Key | None = None) -> RangeHash:
    after = None if pb.open else _key_from_pb(pb.after) if pb.HasField("after") else before
    until = _key_from_pb(pb.until) if pb.HasField("until") else None
    return RangeHash(after, until, pb.count, pb.hash)


def _compare_from_pb(pb: sds_pb2.Compare, peer: PeerRef) -> AskCompare:
    if len(pb.salt) != SALT_SIZE or not 0 < len(pb.ranges) <= MAX_RANGES:
        raise SdsWireError("bad-request", f"a salt of {len(pb.salt)}, {len(pb.ranges)} ranges")
    ranges = tuple(_hash_from_pb(r) for r in pb.ranges)
    if not disjoint(ranges):
        raise SdsWireError("bad-request", "ranges that overlap or are out of order")
    return AskCompare(peer, pb.salt, ranges)


def _comparison_to_pb(comparison: LogComparison, pb: sds_pb2.Comparison) -> None:
    before: Key | None = None
    for part in comparison.parts:
        pb.parts.append(_hash_to_pb(part, before))
        before = part.until
    pb.keys.extend(map(_key_to_pb, comparison.keys))
    if comparison.floor is not None:
        pb.floor.CopyFrom(_key_to_pb(comparison.floor))
    pb.older = comparison.older


def _comparison_from_pb(pb: sds_pb2.Comparison) -> LogComparison:
    if len(pb.parts) > _MAX_PARTS or len(pb.keys) > _MAX_KEYS:
        raise SdsWireError("oversized", f"{len(pb.parts)} parts, {len(pb.keys)} keys")
    parts: list[RangeHash] = []
    for part in pb.parts:
        parts.append(_hash_from_pb(part, parts[-1].until if parts else None))
    if not disjoint(parts):
        raise SdsWireError("malformed", "parts that overlap or are out of order")
    keys = [_key_from_pb(key) for key in pb.keys]
    floor = _key_from_pb(pb.floor) if pb.HasField("floor") else None
    return LogComparison(tuple(parts), tuple(keys), floor, pb.older)


def _id_from_pb(data: bytes) -> MessageId:
    message_id = unpack_id(data)
    if message_id is None:
        raise SdsWireError("malformed", "an id is neither a digest nor text")
    return message_id
