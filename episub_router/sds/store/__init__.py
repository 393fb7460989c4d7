"""Where a participant's state is kept."""

from episub_router.sds.store.base import (
    Retention,
    Saved,
    Store,
    StoredDelivery,
    StoredMessage,
    StoreError,
    StoreFullError,
)
from episub_router.sds.store.memory import MemoryStore
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.store.sqlite_file import Durability

__all__ = [
    "Durability",
    "MemoryStore",
    "Retention",
    "Saved",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoredDelivery",
    "StoredMessage",
]
