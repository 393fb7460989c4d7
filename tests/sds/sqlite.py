"""Looking at, and limiting, the connection of a store on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from episub_router.sds.store.sqlite import SqliteStore


def connection(store: SqliteStore) -> sqlite3.Connection:
    """The store's own: no second one can open the file."""
    return store._db


def pragma(store: SqliteStore, name: str) -> int:
    return int(connection(store).execute(f"PRAGMA {name}").fetchone()[0])


@contextmanager
def sqlite_limit(store: SqliteStore, pages: int) -> Iterator[None]:
    """As if the disk were full beyond so many pages more than now."""
    db = connection(store)
    used = pragma(store, "page_count")
    db.execute(f"PRAGMA max_page_count = {used + pages}")
    try:
        yield
    finally:
        db.execute("PRAGMA max_page_count = 1073741823")
