"""A repaired message on the wire: the author's bytes, then the author's proof (field 100)."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.wire.codec import SdsWireError

_TAG = bytes([0xA2, 0x06])
"""Field 100 with a length."""


def attach_origin(raw: bytes, origin: bytes) -> bytes:
    """A message of another author with its proof. Nothing is added where there is none."""
    return raw + _field(sds_pb2.Origin.FromString(origin)) if origin else raw


def detach_origin(data: bytes) -> tuple[bytes, bytes]:
    """The author's bytes and the proof, which is empty where none came with them.

    Raises SdsWireError where the proof isn't the last field.
    """
    if _TAG not in data:
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
