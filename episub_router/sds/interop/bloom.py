"""Bloom filters of received ids in the layouts of the existing implementations (S03)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from episub_router.pb import sds_pb2
from episub_router.sds.interop.hashing import (
    BaseHash,
    HashPair,
    farm_nim,
    murmur_js,
    murmur_nim,
)

SATURATED = 0.5
"""A received filter that claims at least this share of all possible ids says nothing."""
_MAX_BITS = 2**23
_MAX_HASHES = 64
"""Of a filter whose sender tells its geometry."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """`bits` of filter and `hashes` per id, for `capacity` ids. Raises ValueError."""

    capacity: int
    error_rate: float
    hashes: int
    bits: int

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.hashes < 1 or self.bits < 1:
            raise ValueError(f"a filter needs capacity, hashes and bits of at least 1: {self}")
        if not 0 < self.error_rate < 1:
            raise ValueError(f"error_rate must be between 0 and 1: {self.error_rate}")

    @classmethod
    def optimal(cls, capacity: int, error_rate: float) -> Geometry:
        """The geometry that every implementation derives from these two numbers."""
        if not 0 < error_rate < 1:
            raise ValueError(f"error_rate must be between 0 and 1: {error_rate}")
        per_id = math.ceil(-math.log(error_rate) / math.log(2) ** 2)
        return cls(capacity, error_rate, max(1, round(per_id * math.log(2))), capacity * per_id)

    @property
    def size(self) -> int:
        """Bytes of the filter's words. One word of 64 bits more than needed: so do js and nim."""
        return (1 + self.bits // 64) * 8


@dataclass(frozen=True, slots=True)
class ReceivedFilter:
    """A usable filter out of someone's message."""

    words: bytes
    geometry: Geometry
    flip: int

    def holds(self, base: BaseHash) -> bool:
        """Whether the id with this base hash is in the filter, or a false positive."""
        bits = self.geometry.bits
        index, step = base[0] % bits, base[1] % bits
        for _ in range(self.geometry.hashes):
            if not self.words[index >> 3 ^ self.flip] >> (index & 7) & 1:
                return False
            index = (index + step) % bits
        return True

    def false_positive_rate(self) -> float:
        """Probability that an id that was never inserted is found, from the bits set."""
        ones = int.from_bytes(self.words, "big").bit_count()
        return float(min(1.0, ones / self.geometry.bits) ** self.geometry.hashes)


class FilterCodec(ABC):
    """A filter layout: which bits an id sets, and what goes on the wire."""

    flip: int
    """The byte of a bit inside its 8-byte word is counted from the other end if this is 7."""

    def __init__(self, geometry: Geometry, hash_pair: HashPair) -> None:
        self.geometry = geometry
        self.base_hash = hash_pair

    def new(self) -> bytearray:
        """An empty filter's words."""
        return bytearray(self.geometry.size)

    def insert(self, words: bytearray, base: BaseHash) -> None:
        """Set the bits of the id with this base hash."""
        bits = self.geometry.bits
        index, step = base[0] % bits, base[1] % bits
        for _ in range(self.geometry.hashes):
            words[index >> 3 ^ self.flip] |= 1 << (index & 7)
            index = (index + step) % bits

    @abstractmethod
    def dump(self, words: bytes | bytearray) -> bytes:
        """The content of a message's bloom_filter field."""

    @abstractmethod
    def load(self, data: bytes) -> ReceivedFilter | None:
        """Read a received field. None where it can't be used: that is never an error (S03)."""


class JsCodec(FilterCodec):
    """@waku/sds: the words as they are, big-endian, of a geometry agreed in advance."""

    flip = 7

    def dump(self, words: bytes | bytearray) -> bytes:
        return bytes(words)

    def load(self, data: bytes) -> ReceivedFilter | None:
        if len(data) != self.geometry.size:
            return None
        return ReceivedFilter(data, self.geometry, self.flip)


class NimCodec(FilterCodec):
    """nim-sds: little-endian words in a protobuf that names the geometry; any can be read."""

    flip = 0

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
        return ReceivedFilter(pb.words, geometry, self.flip)


class RollingFilter:
    """Our own filter of received ids (S03): at its capacity it is made again from the newest
    `keep` ids, of which the caller says which those are."""

    def __init__(self, codec: FilterCodec, keep: float) -> None:
        self.codec = codec
        self.keep = max(1, int(codec.geometry.capacity * keep))
        self._words = codec.new()
        self._count = 0
        self._dumped: bytes | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        """Whether the next id must wait for `refill`."""
        return self._count >= self.codec.geometry.capacity

    def add(self, message_id: str) -> None:
        self.codec.insert(self._words, self.codec.base_hash(message_id))
        self._count += 1
        self._dumped = None

    def refill(self, newest: Iterable[str]) -> None:
        """Start again with these ids, at most `keep` of them."""
        self._words = self.codec.new()
        self._count = 0
        for message_id in newest:
            self.add(message_id)

    def dump(self) -> bytes:
        """The bytes for a message's bloom_filter field."""
        if self._dumped is None:
            self._dumped = self.codec.dump(self._words)
        return self._dumped


def js_filter(capacity: int, error_rate: float) -> FilterCodec:
    """The npm package's layout; 10,000 and 0.001 are its fixed values."""
    return JsCodec(Geometry.optimal(capacity, error_rate), murmur_js)


def nim_filter(capacity: int, error_rate: float, *, before_nim_2_2: bool = False) -> FilterCodec:
    """nim-sds's layout. Raises ImportError without pyfarmhash (the extra `nim`)."""
    hash_pair = murmur_nim if before_nim_2_2 else farm_nim
    hash_pair("")
    return NimCodec(Geometry.optimal(capacity, error_rate), hash_pair)
