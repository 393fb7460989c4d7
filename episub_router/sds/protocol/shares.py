"""Fair shares of a bounded table: the holder of most of it yields to one that has less."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
H = TypeVar("H", bound=Hashable)

_SHARE = 0.25
"""Of a table, what one holder may have, also where nobody else needs it (chosen)."""


class Shares(Generic[K, H]):
    """Whose the items of a table of size `limit` are, and as how much each counts."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.total = 0
        self._items: dict[K, tuple[H, int]] = {}
        self._held: dict[H, int] = {}

    def add(self, item: K, holder: H, amount: int = 1) -> None:
        self.total += amount
        self._items[item] = (holder, amount)
        self._held[holder] = self._held.get(holder, 0) + amount

    def remove(self, item: K) -> None:
        holder, amount = self._items.pop(item)
        self.total -= amount
        self._held[holder] -= amount
        if not self._held[holder]:
            del self._held[holder]

    def refuses(self, holder: H, amount: int = 1) -> bool:
        """Whether `holder` has its share already."""
        return self._held.get(holder, 0) + amount > max(amount, self.limit * _SHARE)

    def make_room(self, holder: H, leave: Callable[[K], object], amount: int = 1) -> bool:
        """Whether there is room for so much more of `holder`'s.

        The last items of who has most yield to it: `leave` is called with each, and removes it. No
        item does to one that has its share, or would have as much.
        """
        if self.refuses(holder, amount):
            return False
        while self.total + amount > self.limit:
            most = max(self._held, key=self._held.__getitem__, default=None)
            if most is None or self._held[most] <= self._held.get(holder, 0) + amount:
                return False
            leave(next(item for item in reversed(self._items) if self._items[item][0] == most))
        return True
