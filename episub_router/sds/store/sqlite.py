"""A store in one SQLite file: WAL, one connection, every commit a transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MessageId
from episub_router.sds.store.base import Saved, Store, StoredDelivery, StoredMessage, StoreError

SCHEMA_VERSION = 1
APPLICATION_ID = 0x53445331  # "SDS1"
_TOMBSTONES = 10_000
_SIGN = 2**63

_SCHEMA = """
CREATE TABLE channel (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, clock INTEGER NOT NULL, consumed INTEGER NOT NULL,
  floor_lamport INTEGER, floor_id TEXT
) STRICT;
CREATE TABLE message (
  channel TEXT NOT NULL, lamport INTEGER NOT NULL, id TEXT NOT NULL, sender TEXT NOT NULL,
  digest INTEGER NOT NULL, own_seen INTEGER NOT NULL, hash BLOB NOT NULL, raw BLOB NOT NULL,
  origin BLOB NOT NULL, position INTEGER NOT NULL, missing TEXT NOT NULL, head INTEGER NOT NULL,
  outgoing INTEGER NOT NULL, received_at REAL NOT NULL, UNIQUE (channel, id)
) STRICT;
CREATE INDEX message_order ON message (channel, lamport, id);
CREATE INDEX message_hash ON message (channel, hash);
CREATE INDEX message_position ON message (channel, position) WHERE position > 0;
CREATE INDEX message_outgoing ON message (channel, own_seen) WHERE outgoing = 1;
CREATE INDEX message_age ON message (received_at);
CREATE TABLE incoming (
  channel TEXT NOT NULL, id TEXT NOT NULL, raw BLOB NOT NULL, origin BLOB NOT NULL,
  UNIQUE (channel, id)
) STRICT;
CREATE TABLE tombstone (
  n INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, id TEXT NOT NULL,
  UNIQUE (channel, id)
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a store node keeps, over all channels: seconds since receipt, and bytes of messages."""

    max_age: float = 30 * 86_400.0
    max_bytes: int = 4 * 2**30


class SqliteStore(Store):
    """State that survives `kill -9` at any point.

    A commit is on disk before it returns as far as the process is concerned; a power failure
    may take the last ones with it (`synchronous=NORMAL`), never the file. With `retention`,
    messages stay when they leave the participant's memory, until `purge` takes them.

    Raises StoreError for a file that is damaged, in use, of another application or of another
    schema version.
    """

    def __init__(self, path: str | Path, retention: Retention | None = None) -> None:
        self.path = Path(path)
        self.retention = retention
        try:
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=1.0
            )
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error
        try:
            self._open()
        except sqlite3.OperationalError as error:
            self._db.close()
            if "locked" in str(error):
                raise StoreError(f"{self.path} is in use by another process") from error
            raise StoreError(f"{self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StoreError(f"{self.path} is damaged or no SQLite file: {error}") from error
        except StoreError:
            self._db.close()
            raise

    def _open(self) -> None:
        db = self._db
        # Exclusive: two participants on one file would use one clock twice.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
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
            raise StoreError(f"{self.path} belongs to another application")
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema version {version}, this software reads {SCHEMA_VERSION}"
            )
        db.execute("COMMIT")
        problem = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise StoreError(f"{self.path} is damaged: {problem}")

    def load(self, channel_id: str, owner: str, limit: int) -> Saved | None:
        with self._transaction() as db:
            row = db.execute(
                "SELECT owner, clock, floor_lamport, floor_id FROM channel WHERE id = ?",
                (channel_id,),
            ).fetchone()
            if row is None:
                db.execute(
                    "INSERT INTO channel VALUES (?, ?, ?, 0, NULL, NULL)",
                    (channel_id, owner, -_SIGN),
                )
                return None
            if row[0] != owner:
                raise StoreError(
                    f"{self.path}: channel {channel_id!r} belongs to {row[0]!r}, not to {owner!r}"
                )
            newest = db.execute(
                "SELECT lamport, id, sender, digest, own_seen, head FROM message "
                "WHERE channel = ? ORDER BY lamport DESC, id DESC LIMIT ?",
                (channel_id, limit + 1),
            ).fetchall()
            floor = None if row[2] is None else (row[2] + _SIGN, row[3])
            if len(newest) > limit:
                below = newest.pop()
                floor = (below[0] + _SIGN, below[1])
            return Saved(
                clock=row[1] + _SIGN,
                position=self._number(
                    "SELECT max(position) FROM message WHERE channel = ?", channel_id
                ),
                floor=floor,
                log=[
                    (r[1], LogEntry(r[0] + _SIGN, r[2], r[3], r[4]), bool(r[5]))
                    for r in reversed(newest)
                ],
                incoming=db.execute(
                    "SELECT raw, origin FROM incoming WHERE channel = ? ORDER BY rowid",
                    (channel_id,),
                ).fetchall(),
                outgoing=db.execute(
                    "SELECT id, raw FROM message WHERE channel = ? AND outgoing = 1 "
                    "ORDER BY own_seen",
                    (channel_id,),
                ).fetchall(),
                tombstones=[
                    r[0]
                    for r in db.execute(
                        "SELECT id FROM tombstone WHERE channel = ? ORDER BY n", (channel_id,)
                    )
                ],
            )

    def channels(self) -> list[str]:
        return [r[0] for r in self._db.execute("SELECT id FROM channel ORDER BY rowid")]

    def commit(self, channel_id: str, changes: Sequence[fx.Change]) -> None:
        now = time.time()
        with self._transaction() as db:
            for change in changes:
                self._apply(db, channel_id, change, now)

    def get(self, channel_id: str, ids: Iterable[MessageId]) -> list[StoredMessage]:
        result = []
        for message_id in dict.fromkeys(ids):
            result += self._stored("channel = ? AND id = ?", (channel_id, message_id))
        return result

    def get_hashes(self, channel_id: str, hashes: Iterable[bytes]) -> dict[bytes, StoredMessage]:
        result = {}
        for digest in hashes:
            for stored in self._stored("channel = ? AND hash = ? LIMIT 1", (channel_id, digest)):
                result[digest] = stored
        return result

    def page(
        self, channel_id: str, after: Key | None, until: Key | None, items: int, size: int
    ) -> tuple[list[StoredMessage], bool]:
        where = "channel = ?"
        values: list[str | int] = [channel_id]
        if after is not None:
            where += " AND (lamport, id) > (?, ?)"
            values += [after[0] - _SIGN, after[1]]
        if until is not None:
            where += " AND (lamport, id) <= (?, ?)"
            values += [until[0] - _SIGN, until[1]]
        rows = self._stored(f"{where} ORDER BY lamport, id LIMIT ?", (*values, items + 1))
        result: list[StoredMessage] = []
        for stored in rows[:items]:
            size -= len(stored.raw)
            if size < 0 and result:
                break
            result.append(stored)
        return result, len(result) < len(rows)

    def count(self, channel_id: str) -> int:
        return self._number("SELECT count(*) FROM message WHERE channel = ?", channel_id)

    def deliveries(self, channel_id: str, after: int, limit: int) -> list[StoredDelivery]:
        rows = self._db.execute(
            "SELECT position, raw, missing, sender FROM message "
            "WHERE channel = ? AND position > ? AND position > 0 ORDER BY position LIMIT ?",
            (channel_id, after, limit),
        )
        return [
            StoredDelivery(n, raw, tuple(json.loads(missing)), by) for n, raw, missing, by in rows
        ]

    def consumed(self, channel_id: str) -> int:
        return self._number("SELECT consumed FROM channel WHERE id = ?", channel_id)

    def set_consumed(self, channel_id: str, position: int) -> None:
        self._db.execute("UPDATE channel SET consumed = ? WHERE id = ?", (position, channel_id))

    def purge(self) -> int:
        """Remove what `retention` doesn't keep; returns how many messages went."""
        if self.retention is None:
            return 0
        with self._transaction() as db:
            oldest = time.time() - self.retention.max_age
            gone = db.execute("DELETE FROM message WHERE received_at < ?", (oldest,)).rowcount
            total = db.execute("SELECT total(length(raw)) FROM message").fetchone()[0]
            excess = total - self.retention.max_bytes
            if excess > 0:
                gone += db.execute(
                    "DELETE FROM message WHERE rowid IN (SELECT rowid FROM (SELECT rowid, "
                    "sum(length(raw)) OVER (ORDER BY received_at, rowid) - length(raw) AS before "
                    "FROM message) WHERE before < ?)",
                    (excess,),
                ).rowcount
            return gone

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _apply(self, db: sqlite3.Connection, channel: str, change: fx.Change, now: float) -> None:
        match change:
            case fx.Logged(message_id=message_id, entry=entry):
                db.execute(
                    f"INSERT OR IGNORE INTO message VALUES ({', '.join('?' * 14)})",
                    (
                        channel,
                        entry.lamport - _SIGN,
                        message_id,
                        entry.sender_id,
                        entry.digest,
                        entry.own_seen,
                        hashlib.sha256(change.raw).digest(),
                        change.raw,
                        change.origin,
                        change.position,
                        json.dumps(change.missing),
                        int(change.head),
                        int(change.outgoing),
                        now,
                    ),
                )
                db.executemany(
                    "UPDATE message SET head = 0 WHERE channel = ? AND id = ?",
                    [(channel, old) for old in change.covered],
                )
                db.execute(
                    "DELETE FROM incoming WHERE channel = ? AND id = ?", (channel, message_id)
                )
                db.execute(
                    "DELETE FROM tombstone WHERE channel = ? AND id = ?", (channel, message_id)
                )
            case fx.Buffered(message_id=message_id, raw=raw, origin=origin):
                db.execute(
                    "INSERT OR IGNORE INTO incoming VALUES (?, ?, ?, ?)",
                    (channel, message_id, raw, origin),
                )
            case fx.Settled(message_id=message_id):
                db.execute(
                    "UPDATE message SET outgoing = 0 WHERE channel = ? AND id = ?",
                    (channel, message_id),
                )
            case fx.ClockSet(value=value):
                db.execute(
                    "UPDATE channel SET clock = max(clock, ?) WHERE id = ?",
                    (value - _SIGN, channel),
                )
            case fx.Tombstone(message_id=message_id):
                db.execute(
                    "INSERT OR IGNORE INTO tombstone (channel, id) VALUES (?, ?)",
                    (channel, message_id),
                )
                db.execute(
                    "DELETE FROM tombstone WHERE n <= (SELECT max(n) FROM tombstone) - ?",
                    (_TOMBSTONES,),
                )
            case fx.Evicted(message_id=message_id, floor=floor):
                if self.retention is None:
                    db.execute(
                        "DELETE FROM message WHERE channel = ? AND id = ?", (channel, message_id)
                    )
                    db.execute(
                        "UPDATE channel SET floor_lamport = ?, floor_id = ? WHERE id = ?",
                        (floor[0] - _SIGN, floor[1], channel),
                    )

    def _stored(self, where: str, values: Sequence[Any]) -> list[StoredMessage]:
        rows = self._db.execute(
            f"SELECT lamport, id, raw, origin, sender FROM message WHERE {where}", values
        )
        return [StoredMessage((n + _SIGN, i), raw, origin, by) for n, i, raw, origin, by in rows]

    def _number(self, query: str, channel_id: str) -> int:
        row = self._db.execute(query, (channel_id,)).fetchone()
        return int(row[0] or 0) if row else 0
