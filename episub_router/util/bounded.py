"""Tables with a bound: the oldest entry goes first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def put_last(table: dict[K, V], key: K, value: V, most: int) -> K | None:
    """Set `table[key]` as the newest entry, and keep the `most` newest ones.

    Returns the key that was dropped for it, or None.
    """
    table.pop(key, None)
    table[key] = value
    if len(table) <= most:
        return None
    oldest = next(iter(table))
    del table[oldest]
    return oldest
