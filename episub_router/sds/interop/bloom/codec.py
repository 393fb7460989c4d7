"""What a participant needs from a filter layout, independent of the layout's bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from episub_router.sds.interop.bloom.geometry import Geometry
from episub_router.sds.interop.bloom.hashing import BaseHash, HashPair

SATURATED = 0.5
"""A received filter that claims at least this share of all possible ids says nothing."""


@dataclass(frozen=True, slots=True)
class ReceivedFilter:
    """A usable filter out of someone's message."""

    words: bytes
    geometry: Geometry
    big_endian: bool

    def holds(self, base: BaseHash) -> bool:
        """Whether the id with this base hash is in the filter, or a false positive."""
        bits = self.geometry.bits
        step = base[1] % bits
        index = base[0] % bits
        flip = 7 if self.big_endian else 0
        words = self.words
        for _ in range(self.geometry.hashes):
            if not words[index >> 3 ^ flip] >> (index & 7) & 1:
                return False
            index = (index + step) % bits
        return True

    def false_positive_rate(self) -> float:
        """Probability that an id that was never inserted is found, from the bits set."""
        ones = int.from_bytes(self.words, "big").bit_count()
        return float(min(1.0, ones / self.geometry.bits) ** self.geometry.hashes)


class FilterCodec(ABC):
    """A filter layout: which bits an id sets, and what goes on the wire."""

    big_endian: bool

    def __init__(self, geometry: Geometry, hash_pair: HashPair) -> None:
        self.geometry = geometry
        self.base_hash = hash_pair

    def new(self) -> bytearray:
        """An empty filter's words."""
        return bytearray(self.geometry.size)

    def insert(self, words: bytearray, base: BaseHash) -> None:
        """Set the bits of the id with this base hash."""
        bits = self.geometry.bits
        step = base[1] % bits
        index = base[0] % bits
        # The byte of a bit inside its 8-byte word: counted from the other end if big-endian.
        flip = 7 if self.big_endian else 0
        for _ in range(self.geometry.hashes):
            words[index >> 3 ^ flip] |= 1 << (index & 7)
            index = (index + step) % bits

    @abstractmethod
    def dump(self, words: bytes | bytearray) -> bytes:
        """The content of a message's bloom_filter field."""

    @abstractmethod
    def load(self, data: bytes) -> ReceivedFilter | None:
        """Read a received field. None where it can't be used: that is never an error (S03)."""


class JsCodec(FilterCodec):
    """@waku/sds: the words as they are, big-endian, of a geometry agreed in advance."""

    big_endian = True

    def dump(self, words: bytes | bytearray) -> bytes:
        return bytes(words)

    def load(self, data: bytes) -> ReceivedFilter | None:
        if len(data) != self.geometry.size:
            return None
        return ReceivedFilter(data, self.geometry, self.big_endian)
