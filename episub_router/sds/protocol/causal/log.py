"""The local log: delivered messages in (Lamport, id) order, and its frontier (S06, S09)."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import xor

from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MessageId


@dataclass(frozen=True, slots=True)
class Segment:
    """The messages with after < key <= until; `after` None is before the first message."""

    after: Key | None
    until: Key
    count: int
    fingerprint: int


class Log:
    """Ids in total order. Insertion at the end, the common case, is O(1)."""

    def __init__(self) -> None:
        self._entries: dict[MessageId, LogEntry] = {}
        self._keys: list[Key] = []
        self._prints: list[int] = []
        self.heads: dict[MessageId, None] = {}
        """Messages that no logged message refers to, oldest delivery first."""
        self.floor: Key | None = None
        """The newest place that was evicted: what is not above it is taken as known."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._entries

    def get(self, message_id: MessageId) -> LogEntry | None:
        return self._entries.get(message_id)

    def add(
        self, message_id: MessageId, entry: LogEntry, history: Iterable[MessageId], *, head: bool
    ) -> list[MessageId]:
        """Insert a message; returns the heads that it refers to, which are heads no more."""
        key = (entry.lamport, message_id)
        self._entries[message_id] = entry
        fingerprint = _fingerprint(message_id)
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
            self._prints.append(fingerprint)
        else:
            index = bisect_left(self._keys, key)
            self._keys.insert(index, key)
            self._prints.insert(index, fingerprint)
        covered = [h for h in dict.fromkeys(history) if h in self.heads]
        for old in covered:
            del self.heads[old]
        if head:
            self.heads[message_id] = None
        return covered

    def evict_oldest(self) -> MessageId:
        """Remove the first message of the order and raise the floor to it."""
        self.floor = self._keys.pop(0)
        del self._prints[0]
        message_id = self.floor[1]
        del self._entries[message_id]
        self.heads.pop(message_id, None)
        return message_id

    def below_floor(self, key: Key) -> bool:
        """Whether a message of this place would have been evicted already."""
        return self.floor is not None and key <= self.floor

    def key(self, message_id: MessageId) -> Key:
        return (self._entries[message_id].lamport, message_id)

    def newest(self, count: int) -> list[MessageId]:
        """The last `count` ids of the order, ascending."""
        return [key[1] for key in self._keys[-count:]] if count > 0 else []

    def places(self, after: Key | None = None, until: Key | None = None) -> list[Key]:
        """The places with after < key <= until, ascending."""
        low, high = self._bounds(after, until)
        return self._keys[low:high]

    def summary(self, after: Key | None, until: Key | None) -> tuple[int, int]:
        """How many messages lie in after < key <= until, and the XOR of their fingerprints."""
        low, high = self._bounds(after, until)
        return high - low, reduce(xor, self._prints[low:high], 0)

    def segments(self, first: int, span: int) -> tuple[Segment, ...]:
        """The newest `span` messages cut into segments, newest first.

        The two newest hold `first` messages each, every older one twice as many as the one
        before it: two logs that differ at the end agree in all but the first few.
        """
        result = []
        high, size = len(self._keys), first
        bottom = max(0, high - span)
        while high > bottom:
            low = max(bottom, high - size)
            result.append(
                Segment(
                    after=self._keys[low - 1] if low else self.floor,
                    until=self._keys[high - 1],
                    count=high - low,
                    fingerprint=reduce(xor, self._prints[low:high], 0),
                )
            )
            high = low
            if len(result) > 1:
                size *= 2
        return tuple(result)

    def _bounds(self, after: Key | None, until: Key | None) -> tuple[int, int]:
        low = bisect_right(self._keys, after) if after is not None else 0
        high = bisect_right(self._keys, until) if until is not None else len(self._keys)
        return low, max(low, high)


def _fingerprint(message_id: MessageId) -> int:
    return int.from_bytes(hashlib.blake2b(message_id.encode(), digest_size=8).digest(), "big")
