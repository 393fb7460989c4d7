"""Our own filter of received ids, rolled over at its capacity (S03)."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.sds.interop.bloom.codec import FilterCodec


class RollingFilter:
    """At most `capacity` ids: at the limit it is recomputed from the newest `keep` ids.

    The caller says which ids are the newest, because it has the log's order.
    """

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
