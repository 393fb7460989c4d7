"""Using a store from trio: one call at a time, off the event loop where it writes to disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

import trio

from episub_router.sds.store import MemoryStore, Store

T = TypeVar("T")


class StoreAccess:
    """Shared by everyone who uses the same store."""

    _shared: ClassVar[WeakKeyDictionary[Store, StoreAccess]] = WeakKeyDictionary()

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = trio.Lock()
        self._inline = isinstance(store, MemoryStore)

    @classmethod
    def of(cls, store: Store) -> StoreAccess:
        access = cls._shared.get(store)
        if access is None:
            access = cls._shared[store] = cls(store)
        return access

    async def run(self, call: Callable[[], T]) -> T:
        """Run a store call. A cancelled caller waits until it's done: it is never half done."""
        async with self._lock:
            if self._inline:
                return call()
            return await trio.to_thread.run_sync(call)
