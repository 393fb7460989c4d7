"""The base hashes of the js and nim filters: two numbers per id, from which all probes follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import mmh3

BaseHash: TypeAlias = tuple[int, int]
HashPair: TypeAlias = Callable[[str], BaseHash]

_C1, _C2, _MASK = 0xCC9E2D51, 0x1B873593, 0xFFFFFFFF


def murmur_js(text: str) -> BaseHash:
    """murmur3-32 as signed, then absolute: what @waku/sds computes."""
    if text.isascii():
        data = text.encode("ascii")
        return abs(mmh3.hash(data)), abs(mmh3.hash(data + b" b"))
    return _js_units(text), _js_units(text + " b")


def murmur_nim(text: str) -> BaseHash:
    """murmur3-32 as unsigned over UTF-8: nim-sds compiled by Nim before 2.2."""
    data = text.encode()
    return mmh3.hash(data, signed=False), mmh3.hash(data + b" b", signed=False)


def farm_nim(text: str) -> BaseHash:
    """FarmHash64 as signed, then absolute: nim-sds compiled by Nim 2.2 and later.

    Raises ImportError where pyfarmhash (the extra `nim`) is not installed.
    """
    try:
        import farmhash
    except ImportError as error:
        raise ImportError(
            "filters of nim-sds need FarmHash64: install episub-router[nim]"
        ) from error
    return _abs64(farmhash.fingerprint64(text)), _abs64(farmhash.fingerprint64(text + " b"))


def _abs64(value: int) -> int:
    return value if value < 2**63 else 2**64 - value


def _js_units(text: str) -> int:
    # js hashes the first UTF-16 unit of each code point as if it were a byte, so units above
    # 255 overlap inside a block; no library hashes that.
    units = [int.from_bytes(c.encode("utf-16-le")[:2], "little") for c in text]
    h = 0
    tail = len(units) // 4 * 4
    for i in range(0, tail, 4):
        h ^= _mix(_block(units[i : i + 4]))
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _MASK
    if units[tail:]:
        h ^= _mix(_block(units[tail:]))
    h ^= len(units)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h if h < 2**31 else 2**32 - h


def _block(units: list[int]) -> int:
    block = 0
    for unit in reversed(units):
        block = (block << 8 | unit) & _MASK
    return block


def _mix(block: int) -> int:
    block = block * _C1 & _MASK
    return (block << 15 | block >> 17) * _C2 & _MASK
