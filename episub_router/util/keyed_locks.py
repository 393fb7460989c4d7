"""A lock for each key that somebody holds or waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import trio

K = TypeVar("K", bound=Hashable)


class KeyedLocks(Generic[K]):
    """Those with the same key go one after the other. Bounded by their number."""

    def __init__(self) -> None:
        self._locks: dict[K, trio.Lock] = {}

    def __contains__(self, key: K) -> bool:
        """Whether somebody holds the lock of `key`."""
        return key in self._locks

    @asynccontextmanager
    async def held(self, key: K) -> AsyncIterator[None]:
        """Hold the lock of `key`, after those who asked before."""
        lock = self._locks.setdefault(key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
