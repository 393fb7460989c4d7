"""A sorted list that is cheap to shorten at the front."""

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

    @property
    def first(self) -> T:
        """The least item. Raises IndexError where there is none."""
        return self._items[self._gone]

    def add(self, item: T) -> None:
        if not self or item > self._items[-1]:
            self._items.append(item)
        else:
            self._items.insert(bisect_left(self._items, item, self._gone), item)

    def remove(self, item: T) -> None:
        """Remove an item that is there."""
        if self._items[self._gone] != item:
            del self._items[bisect_left(self._items, item, self._gone)]
            return
        self._gone += 1
        if self._gone > _SPARE:
            del self._items[: self._gone]
            self._gone = 0

    def between(
        self, after: Any, until: Any, count: int | None = None, *, last: bool = False
    ) -> list[T]:
        """The items with after < item <= until, at most `count` of the first, or the last; None is
        an open bound."""
        low = bisect_right(self._items, after, self._gone) if after is not None else self._gone
        all_of_them = len(self._items)
        high = bisect_right(self._items, until, self._gone) if until is not None else all_of_them
        if count is not None and last:
            low = max(low, high - count)
        elif count is not None:
            high = min(high, low + count)
        return self._items[low:high]

    def last(self, count: int) -> list[T]:
        return self._items[max(self._gone, len(self._items) - count) :]
