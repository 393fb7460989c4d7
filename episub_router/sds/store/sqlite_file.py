"""Opening a store's SQLite file, and its errors as ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from episub_router.sds.store.values import StoreError, StoreFullError

SCHEMA_VERSION = 8
APPLICATION_ID = 0x53445331  # "SDS1"

_SCHEMA = """
CREATE TABLE message (
  n INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, lamport INTEGER NOT NULL,
  id TEXT NOT NULL, sender TEXT NOT NULL,
  raw BLOB NOT NULL, origin BLOB NOT NULL, missing TEXT NOT NULL, sum BLOB NOT NULL,
  received_at REAL NOT NULL, segment BLOB, part INTEGER,
  UNIQUE (channel, id)
) STRICT;
CREATE INDEX message_order ON message (channel, lamport, id);
CREATE INDEX message_age ON message (received_at);
CREATE INDEX message_segment ON message (channel, sender, segment, lamport, id, part)
  WHERE segment IS NOT NULL;
CREATE TABLE note (
  n INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, kind TEXT NOT NULL,
  name TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, text TEXT NOT NULL,
  sum BLOB NOT NULL,
  UNIQUE (channel, kind, name)
) STRICT;
CREATE TABLE snapshot (
  channel TEXT NOT NULL, until INTEGER NOT NULL, digest BLOB NOT NULL, state BLOB NOT NULL,
  arrival INTEGER NOT NULL, sum BLOB NOT NULL, UNIQUE (channel, until, digest)
) STRICT;
CREATE TABLE room (data BLOB NOT NULL) STRICT
"""


class Durability(Enum):
    """What a commit outlives. The value is SQLite's `synchronous`."""

    PROCESS = "NORMAL"
    """The process. A power failure may take the last commits, never the file."""
    POWER = "FULL"
    """A power failure too: every commit waits for the disk."""


def open_file(path: Path, durability: Durability) -> sqlite3.Connection:
    """The file, checked, and made where it isn't there. Raises StoreError."""
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error
    try:
        with named_errors(path):
            _prepare(db, path, durability)
    except StoreError:
        db.close()
        raise
    return db


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as StoreError, with the file's name and what is wrong."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise StoreFullError(f"{path}: the disk is full") from error
        if "locked" in str(error):
            raise StoreError(f"{path} is in use by another process") from error
        raise StoreError(f"{path}: {error}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its message may be damaged too
        raise StoreError(f"{path} is damaged or no SQLite file: {error}") from error


def _prepare(db: sqlite3.Connection, path: Path, durability: Durability) -> None:
    # An altered text that is no UTF-8 has to be read before it is found to be altered.
    db.text_factory = lambda data: data.decode(errors="replace")
    # Exclusive: two participants on one file would use one clock twice.
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {durability.value}")
    db.execute("BEGIN IMMEDIATE")
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables == 0:
        for statement in _SCHEMA.split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif application != APPLICATION_ID:
        raise StoreError(f"{path} belongs to another application")
    elif version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this software reads {SCHEMA_VERSION}"
        )
    db.execute("COMMIT")
    if _problem(db) != "ok":
        # Indexes can be made again from the tables, if those are whole.
        db.execute("REINDEX")
        problem = _problem(db)
        if problem != "ok":
            raise StoreError(f"{path} is damaged: {problem}")


def _problem(db: sqlite3.Connection) -> str:
    return str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
