"""A sorted list that is cheap to shorten near the front."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])

_SPARE = 1024
"""Removed items that may wait at the front to be cut off."""


class FrontList(Generic[T]):
    """Items in ascending order. Appending the greatest and removing the least are O(1)."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._gone = 0

    def __len__(self) -> int:
        return len(self._items) - self._gone

    def __getitem__(self, index: int) -> T:
        """The item at an index that there is, from 0."""
        return self._items[self._gone + index]

    @property
    def last(self) -> T:
        """The greatest item."""
        return self._items[-1]

    def add(self, item: T) -> int:
        """The index at which the item is now."""
        if not self or item > self._items[-1]:
            self._items.append(item)
            return len(self) - 1
        index = self.index(item)
        self._items.insert(self._gone + index, item)
        return index

    def remove(self, item: T) -> int:
        """Remove an item that is there; the index at which it was.

        What is before it moves up, which is little where old items leave.
        """
        front, index = self._gone, self.index(item)
        self._items[front + 1 : front + 1 + index] = self._items[front : front + index]
        self._gone += 1
        if self._gone > _SPARE:
            del self._items[: self._gone]
            self._gone = 0
        return index

    def index(self, item: Any) -> int:
        """How many items are less."""
        return bisect_left(self._items, item, self._gone) - self._gone

    def bounds(self, after: Any, until: Any) -> tuple[int, int]:
        """The indexes of the items with after < item <= until: of the first one, and behind the
        last one. None is an open bound."""
        low = bisect_right(self._items, after, self._gone) if after is not None else self._gone
        high = len(self._items)
        if until is not None:
            high = max(low, bisect_right(self._items, until, self._gone))
        return low - self._gone, high - self._gone

    def between(self, after: Any, until: Any) -> list[T]:
        """The items with after < item <= until."""
        low, high = self.bounds(after, until)
        return self._items[self._gone + low : self._gone + high]
