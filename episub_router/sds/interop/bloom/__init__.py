"""Bloom filters of received ids in the layouts of the existing implementations (S03)."""

from episub_router.sds.interop.bloom.codec import SATURATED, FilterCodec, JsCodec, ReceivedFilter
from episub_router.sds.interop.bloom.geometry import Geometry
from episub_router.sds.interop.bloom.hashing import BaseHash, farm_nim, murmur_js, murmur_nim
from episub_router.sds.interop.bloom.nim import NimCodec
from episub_router.sds.interop.bloom.rolling import RollingFilter


def js_filter(capacity: int, error_rate: float) -> FilterCodec:
    """The npm package's layout; 10,000 and 0.001 are its fixed values."""
    return JsCodec(Geometry.optimal(capacity, error_rate), murmur_js)


def nim_filter(capacity: int, error_rate: float, *, before_nim_2_2: bool = False) -> FilterCodec:
    """nim-sds's layout. Raises ImportError without pyfarmhash (the extra `nim`)."""
    hash_pair = murmur_nim if before_nim_2_2 else farm_nim
    hash_pair("")
    return NimCodec(Geometry.optimal(capacity, error_rate), hash_pair)


__all__ = [
    "SATURATED",
    "BaseHash",
    "FilterCodec",
    "Geometry",
    "JsCodec",
    "NimCodec",
    "ReceivedFilter",
    "RollingFilter",
    "farm_nim",
    "js_filter",
    "murmur_js",
    "murmur_nim",
    "nim_filter",
]
