"""Using a store from trio: one call at a time, off the event loop where it writes to disk."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from episub_router.sds.protocol.entry import Key
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore

T = TypeVar("T")


def store_key(topic_name: str, channel_id: str) -> str:
    """A channel's name in a store, which may hold channels of many topics."""
    return json.dumps([topic_name, channel_id])


def channel_of(key: str, topic_name: str) -> str | None:
    """The channel of a topic that has this name; None where it's none, such as a damaged one."""
    try:
        found = json.loads(key)
    except ValueError:
        return None
    match found:
        case [str(topic), str(channel_id)] if topic == topic_name:
            return channel_id
    return None


class StoreAccess:
    """Shared by all channels of the same store."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.purged: dict[str, Callable[[Sequence[Key]], None]] = {}
        """What each of its channels does about what is removed."""
        self.purge_at = -math.inf
        """When its retention is to be looked at next."""
        self._lock = trio.Lock()
        self._inline = isinstance(store, MemoryStore)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a store call. A cancelled caller waits until it's done: it is never half done."""
        async with self._lock:
            if self._inline:
                return call()
            return await trio.to_thread.run_sync(call)

    async def purge_regularly(self, counts: Counter[str]) -> None:
        """Remove what the store's retention doesn't keep, and tell the channels, until cancelled.
        Of several channels with one store, one at a time has something to do."""
        while self.store.retention is not None:
            if trio.current_time() >= self.purge_at:
                self.purge_at = trio.current_time() + self.store.retention.interval
                purges = await self.run(self.store.purge)
                for key, places in purges.items():
                    counts["purged"] += len(places)
                    if key in self.purged:
                        self.purged[key](places)
            await trio.sleep_until(self.purge_at)


def access_of(store: SqliteStore) -> StoreAccess:
    """The one of a store, with which it goes."""
    access: StoreAccess = vars(store).setdefault("access", StoreAccess(store))
    return access
