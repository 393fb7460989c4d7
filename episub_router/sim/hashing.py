"""Numbers that depend on what they are for, and not on the order in which they are drawn."""

from __future__ import annotations

import random

_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def unit(seed: int, *key: int) -> float:
    """A number in [0, 1) that looks random and is the same for the same `seed` and `key`."""
    value = _mix(seed & _MASK)
    for part in key:
        value = _mix(value ^ (part & _MASK))
    return (value >> 11) / (1 << 53)


def unit_of_pair(seed: int, a: int, b: int) -> float:
    """`unit` for the unordered pair of `a` and `b`."""
    return unit(seed, a, b) if a < b else unit(seed, b, a)


def generator(seed: int, purpose: str, index: int = 0) -> random.Random:
    """A generator of its own for one `purpose` of one node.

    Seeded with text, which `random.Random` digests with SHA-512: unlike a tuple's hash, that
    is the same in every process.
    """
    return random.Random(f"{seed}/{purpose}/{index}")
