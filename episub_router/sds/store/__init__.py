"""Where a participant's state is kept."""

from episub_router.sds.store.base import Delivery, Saved, Store, Stored, StoreError
from episub_router.sds.store.memory import MemoryStore

__all__ = ["Delivery", "MemoryStore", "Saved", "Store", "StoreError", "Stored"]
