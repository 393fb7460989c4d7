"""Where a participant's state is kept."""

from episub_router.sds.store.base import (
    Saved,
    Store,
    StoredDelivery,
    StoredMessage,
    StoreError,
    StoreFullError,
)
from episub_router.sds.store.memory import MemoryStore
from episub_router.sds.store.sqlite import Retention, SqliteStore
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
