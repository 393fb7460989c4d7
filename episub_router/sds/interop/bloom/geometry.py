"""Size and hash count of a bloom filter (S03), as all SDS implementations choose them."""

from __future__ import annotations

import math
from dataclasses import dataclass

WORD_BITS = 64


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
        """Bytes of the filter's words. One word more than needed: so do js and nim."""
        return (1 + self.bits // WORD_BITS) * (WORD_BITS // 8)
