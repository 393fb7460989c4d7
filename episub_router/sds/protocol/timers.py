"""Deadlines by key, without scanning all of them."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from episub_router.protocol.types import NEVER, Time

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """At most one deadline per key. Equal deadlines fire in the order in which they were set."""

    def __init__(self) -> None:
        self._at: dict[K, tuple[Time, int]] = {}
        self._heap: list[tuple[Time, int, K]] = []
        self._count = 0

    def set(self, key: K, at: Time) -> None:
        """Set or move the deadline of `key`."""
        self._count += 1
        self._at[key] = (at, self._count)
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 64 + 4 * len(self._at):
            self._heap = [(at, n, key) for key, (at, n) in self._at.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: K) -> None:
        self._at.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def next(self) -> Time:
        """The earliest deadline, or NEVER."""
        heap = self._heap
        while heap and self._at.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][0] if heap else NEVER

    def pop_due(self, now: Time) -> list[K]:
        """Remove and return all keys whose deadline has come, earliest first."""
        due = []
        while self.next() <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key]
            due.append(key)
        return due
