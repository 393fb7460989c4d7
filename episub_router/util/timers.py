"""A map of timers: what is due when."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

NEVER = float("inf")


class TimerMap(Generic[K]):
    """At most one timer for each key. Times are in seconds, of any clock.

    Setting, cancelling and taking what is due cost O(log n). Timers of one time are due in the
    order in which they were set.
    """

    __slots__ = ("_due", "_heap", "_number")

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        """Entries that differ from `_due` are cancelled ones."""
        self._number = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    def get(self, key: K) -> float:
        """When `key` is due; infinity where it has no timer."""
        entry = self._due.get(key)
        return NEVER if entry is None else entry[0]

    def set(self, key: K, at: float) -> None:
        """Have `key` due at `at`, in place of when it was."""
        self._number += 1
        self._due[key] = (at, self._number)
        heapq.heappush(self._heap, (at, self._number, key))
        if len(self._heap) > 2 * len(self._due) + 16:
            self._heap = [(at, number, key) for key, (at, number) in self._due.items()]
            heapq.heapify(self._heap)

    def set_earliest(self, key: K, at: float) -> None:
        """Have `key` due at `at`, unless it is due before."""
        if at < self.get(key):
            self.set(key, at)

    def cancel(self, key: K) -> None:
        """`key` is due no more; no error if it wasn't."""
        self._due.pop(key, None)
        if not self._due:
            self._heap.clear()

    @property
    def deadline(self) -> float:
        """When the next timer is due; infinity where there is none."""
        heap = self._heap
        while heap:
            at, number, key = heap[0]
            if self._due.get(key) == (at, number):
                return at
            heapq.heappop(heap)
        return NEVER

    def pop_due(self, now: float) -> list[K]:
        """The keys due at `now` or before, the earliest first; their timers are gone."""
        due: list[K] = []
        while self.deadline <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            due.append(key)
        return due

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()
