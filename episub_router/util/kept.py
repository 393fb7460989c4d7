"""One object for each key, for as long as the key lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")


def one_for_each(make: Callable[[K], V]) -> Callable[[K], V]:
    """`make`, called once for each key. What it makes must not hold the key: both would stay."""
    kept: WeakKeyDictionary[K, V] = WeakKeyDictionary()

    def of(key: K) -> V:
        if key not in kept:
            kept[key] = make(key)
        return kept[key]

    return of
