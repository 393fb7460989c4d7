"""Fair shares of a bounded table: the holder of most of it yields to one that has less."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Shares(Generic[H]):
    """How much of a table each holder has."""

    def __init__(self) -> None:
        self._held: dict[H, int] = {}

    def of(self, holder: H) -> int:
        return self._held.get(holder, 0)

    def add(self, holder: H, amount: int = 1) -> None:
        self._held[holder] = self._held.get(holder, 0) + amount

    def remove(self, holder: H, amount: int = 1) -> None:
        left = self._held[holder] - amount
        if left > 0:
            self._held[holder] = left
        else:
            del self._held[holder]

    def yields_to(self, holder: H, amount: int = 1) -> H | None:
        """The holder that yields something for so much more of `holder`'s; None where no other has
        more than `holder` would have."""
        most = max(self._held, key=self._held.__getitem__, default=None)
        if most is None or self._held[most] <= self.of(holder) + amount:
            return None
        return most
