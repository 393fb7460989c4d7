"""Bloom filters of received ids in the layouts of the existing implementations (S03)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

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

    def probes(self, base: BaseHash) -> Iterator[int]:
        """The bits of the id with this base hash."""
        index, step = base[0] % self.bits, base[1] % self.bits
        for _ in range(self.hashes):
            yield index
            index = (index + step) % self.bits


@dataclass(frozen=True, slots=True)
class ReceivedFilter:
    """A usable filter out of someone's message."""

    words: bytes
    geometry: Geometry
    flip: int

    def holds(self, base: BaseHash) -> bool:
        """Whether the id with this base hash is in the filter, or a false positive."""
        return all(
            self.words[i >> 3 ^ self.flip] >> (i & 7) & 1 for i in self.geometry.probes(base)
        )

    def false_positive_rate(self) -> float:
        """Probability that an id that was never inserted is found, from the bits set."""
        ones = int.from_bytes(self.words, "big").bit_count()
        return float(min(1.0, ones / self.geometry.bits) ** self.geometry.hashes)


@dataclass(frozen=True, slots=True)
class FilterCodec:
    """A filter layout: which bits an id sets, and what goes on the wire.

    Of @waku/sds (`named` is False): the words as they are, big-endian, of a geometry agreed in
    advance. Of nim-sds: little-endian words in a protobuf that names the geometry; any can be read.
    """

    geometry: Geometry
    base_hash: HashPair
    named: bool

    @property
    def flip(self) -> int:
        """The byte of a bit inside its 8-byte word is counted from the other end if this is 7."""
        return 0 if self.named else 7

    def new(self) -> bytearray:
        """An empty filter's words."""
        return bytearray(self.geometry.size)

    def insert(self, words: bytearray, base: BaseHash) -> None:
        """Set the bits of the id with this base hash."""
        flip = self.flip
        for index in self.geometry.probes(base):
            words[index >> 3 ^ flip] |= 1 << (index & 7)

    def dump(self, *parts: bytes | bytearray) -> bytes:
        """The content of a message's bloom_filter field: all ids of these filters."""
        bits = reduce(or_, (int.from_bytes(words, "big") for words in parts), 0)
        words = bits.to_bytes(self.geometry.size, "big")
        if not self.named:
            return words
        return sds_pb2.NimBloomFilter(
            words=words,
            capacity=self.geometry.capacity,
            error_rate_ppm=int(self.geometry.error_rate * 1_000_000),
            hashes=self.geometry.hashes,
            bits=self.geometry.bits,
        ).SerializeToString()

    def load(self, data: bytes) -> ReceivedFilter | None:
        """Read a received field. None where it can't be used: that is never an error (S03)."""
        words, geometry = data, self.geometry
        if self.named:
            try:
                pb = sds_pb2.NimBloomFilter.FromString(data)
                geometry = Geometry(pb.capacity, pb.error_rate_ppm / 1_000_000, pb.hashes, pb.bits)
            except (DecodeError, ValueError):
                return None
            words = pb.words
            if geometry.bits > _MAX_BITS or geometry.hashes > _MAX_HASHES:
                return None
        return ReceivedFilter(words, geometry, self.flip) if len(words) == geometry.size else None


def js_filter(capacity: int, error_rate: float) -> FilterCodec:
    """The npm package's layout; 10,000 and 0.001 are its fixed values."""
    return FilterCodec(Geometry.optimal(capacity, error_rate), murmur_js, named=False)


def nim_filter(capacity: int, error_rate: float, *, before_nim_2_2: bool = False) -> FilterCodec:
    """nim-sds's layout. Raises ImportError without pyfarmhash (the extra `nim`)."""
    hash_pair = murmur_nim if before_nim_2_2 else farm_nim
    hash_pair("")
    return FilterCodec(Geometry.optimal(capacity, error_rate), hash_pair, named=True)
