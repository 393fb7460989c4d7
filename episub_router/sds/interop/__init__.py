"""Other implementations of SDS: the npm package @waku/sds, and filters of nim-sds.

Their messages carry ids of their own, a long history and a Bloom filter of received ids, which the
default path knows nothing of. Members that speak so trust each other.
"""

from episub_router.sds.interop.bloom import FilterCodec, js_filter, nim_filter
from episub_router.sds.interop.codec import Interop, WireFormat

__all__ = ["FilterCodec", "Interop", "WireFormat", "js_filter", "nim_filter"]
