"""Tables that are empty for most of the time, and small then."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def take(table: dict[K, V], key: K) -> V | None:
    """Take what `table` has for `key` out of it; None if that is nothing. A dict keeps the room
    that it once took: one that has become empty gives it back here."""
    taken = table.pop(key, None)
    if not table:
        table.clear()
    return taken
