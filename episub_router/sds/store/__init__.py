"""Where a participant's state is kept."""

from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from episub_router.sds.store.sqlite_file import Durability
from episub_router.sds.store.values import (
    Retention,
    SegmentPlaces,
    StoredDelivery,
    StoreError,
    StoreFullError,
)

__all__ = [
    "Durability",
    "MemoryStore",
    "Retention",
    "SegmentPlaces",
    "SqliteStore",
    "StoreError",
    "StoreFullError",
    "StoredDelivery",
]
