"""Where a participant's state is kept."""

from episub_router.sds.store.base import Delivery, Saved, Store, Stored, StoreError
from episub_router.sds.store.memory import MemoryStore
from episub_router.sds.store.sqlite import Retention, SqliteStore

__all__ = [
    "Delivery",
    "MemoryStore",
    "Retention",
    "Saved",
    "SqliteStore",
    "Store",
    "StoreError",
    "Stored",
]
