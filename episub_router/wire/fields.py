"""How many fields a serialized message has, before it is parsed.

A field of two bytes becomes an object of a hundred: 1 MB of them would take 50 MB.
"""

from __future__ import annotations

from typing import Any

from libp2p.pubsub.pb import rpc_pb2

from episub_router.pb import episub_pb2 as pb

MAX_FIELDS = 20_000
"""Of one RPC; chosen: 5,000 subscriptions of gossipsub, with room to spare."""

_SMALL = 2 * MAX_FIELDS
"""Bytes that can't hold more: a field takes two at least."""

_Nested = dict[int, Any]
"""The fields that hold messages, by number, and the fields of those."""


def _nested(descriptor: Any) -> _Nested:
    return {
        field.number: _nested(field.message_type)
        for field in descriptor.fields
        if field.message_type is not None
    }


_RPC = _nested(rpc_pb2.RPC.DESCRIPTOR) | _nested(pb.EpisubRpc.DESCRIPTOR)


def is_crowded(rpc: bytes, most: int = MAX_FIELDS) -> bool:
    """Whether the serialized `rpc` has more than `most` fields, those of its parts included.

    Takes time in proportion to `most` at most. What can't be parsed counts as not crowded.
    """
    return len(rpc) > min(_SMALL, 2 * most) and _count(rpc, 0, len(rpc), _RPC, most) > most


def _count(data: bytes, at: int, end: int, nested: _Nested, most: int) -> int:
    count = 0
    try:
        while at < end and count <= most:
            count += 1
            tag, at = _varint(data, at)
            match tag & 7:
                case 0:
                    _, at = _varint(data, at)
                case 1:
                    at += 8
                case 2:
                    length, at = _varint(data, at)
                    inner = nested.get(tag >> 3)
                    if inner is not None and at + length <= end:
                        count += _count(data, at, at + length, inner, most - count)
                    at += length
                case 5:
                    at += 4
                case 3 | 4:
                    pass
                case _:
                    return count
    except IndexError:
        return count
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            return value, at + 1
        shift += 7
