"""Other implementations of SDS: the npm package @waku/sds, and filters of nim-sds.

Their messages carry ids of their own, a long history and a Bloom filter of received ids, which the
default path knows nothing of. Members that speak so trust each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from episub_router.sds.interop.bloom import FilterCodec, js_filter, nim_filter
from episub_router.sds.interop.codec import InteropCodec, WireFormat
from episub_router.sds.interop.dialect import InteropDialect
from episub_router.sds.protocol.params import SdsParams


@dataclass(frozen=True, slots=True)
class Interop:
    """What a channel writes. The default is what @waku/sds 0.0.8 reads: with a filter of any other
    size it drops a message.

    `history`: entries of a causal history; 2 leave 4 to 16 % of concurrent messages in nobody's.
    Heads beyond them go into a field that only this implementation reads. `segments`: each content
    is one of LIP-243's segments, as in LIP-173's Reliable Channel.
    """

    wire: WireFormat = WireFormat.CURRENT
    filters: FilterCodec = field(default_factory=lambda: js_filter(10_000, 0.001))
    history: int = 10
    segments: bool = False

    def codec(self, params: SdsParams, wall: Callable[[], int]) -> InteropCodec:
        return InteropCodec(
            params,
            self.wire,
            wall,
            self.history,
            segments=self.segments,
            filter_size=self.filters.geometry.size,
        )

    def dialect(self) -> InteropDialect:
        return InteropDialect(self.filters, self.history)


__all__ = ["FilterCodec", "Interop", "WireFormat", "js_filter", "nim_filter"]
