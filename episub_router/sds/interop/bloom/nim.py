"""nim-sds filters: little-endian words in a protobuf that names the geometry."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.interop.bloom.codec import FilterCodec, ReceivedFilter
from episub_router.sds.interop.bloom.geometry import Geometry

_MAX_BITS = 2**23
_MAX_HASHES = 64


class NimCodec(FilterCodec):
    """Any geometry can be read, since the sender tells it."""

    big_endian = False

    def dump(self, words: bytes | bytearray) -> bytes:
        return sds_pb2.NimBloomFilter(
            words=bytes(words),
            capacity=self.geometry.capacity,
            error_rate_ppm=int(self.geometry.error_rate * 1_000_000),
            hashes=self.geometry.hashes,
            bits=self.geometry.bits,
        ).SerializeToString()

    def load(self, data: bytes) -> ReceivedFilter | None:
        try:
            pb = sds_pb2.NimBloomFilter.FromString(data)
            geometry = Geometry(pb.capacity, pb.error_rate_ppm / 1_000_000, pb.hashes, pb.bits)
        except (DecodeError, ValueError):
            return None
        if geometry.bits > _MAX_BITS or geometry.hashes > _MAX_HASHES:
            return None
        if len(pb.words) != geometry.size:
            return None
        return ReceivedFilter(pb.words, geometry, self.big_endian)
