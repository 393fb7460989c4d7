"""Where a participant's state is kept."""

from episub_router.sds.store.base import Saved, Store, StoredDelivery, StoredMessage, StoreError
from episub_router.sds.store.memory import MemoryStore
from episub_router.sds.store.sqlite import Retention, SqliteStore

__all__ = [
    "MemoryStore",
    "Retention",
    "Saved",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoredDelivery",
    "StoredMessage",
]
