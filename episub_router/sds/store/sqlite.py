"""A store in one SQLite file: WAL, one connection, every commit a transaction."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.store.base import (
    TOMBSTONES,
    Purged,
    Retention,
    Saved,
    Store,
    StoredDelivery,
    StoredMessage,
    StoreError,
    first_that_fit,
)
from episub_router.sds.store.sealing import seal
from episub_router.sds.store.sqlite_file import Durability, named_errors, open_file
from episub_router.sds.store.sqlite_load import (
    CHANNEL_COLUMNS,
    SEALED,
    SIGN,
    digest_of,
    load_channel,
    message_seal,
    seal_channel,
    whole,
)
from episub_router.sds.store.sqlite_rows import check, put, trim


class SqliteStore(Store):
    """State that survives `kill -9` at any point; `durability` says whether a power failure too.

    With `retention`, messages stay when they leave the participant's memory, until `purge` takes
    them. Every row has a seal: one that was altered is never handed out. It is removed on
    loading, and the participant fetches its message again.

    Raises StoreError for a file that is damaged beyond that, in use, of another application or of
    another schema version, and StoreFullError where the disk is full.
    """

    def __init__(
        self,
        path: str | Path,
        retention: Retention | None = None,
        *,
        durability: Durability = Durability.PROCESS,
    ) -> None:
        self.path = Path(path)
        self.retention = retention
        self._db = open_file(self.path, durability)

    def load(self, channel_id: str, owner: str, limit: int) -> Saved | None:
        with self._transaction() as db:
            row = db.execute(
                f"SELECT {CHANNEL_COLUMNS} FROM channel WHERE id = ?", (channel_id,)
            ).fetchone()
            if row is None:
                db.execute(
                    "INSERT INTO channel VALUES (?, ?, ?, 0, NULL, NULL, 0, 0, x'')",
                    (channel_id, owner, -SIGN),
                )
                known = "SELECT count(*) FROM (SELECT 1 FROM message WHERE channel = ? LIMIT 1)"
                if not self._number(known, channel_id):
                    seal_channel(db, channel_id)
                    return None
                row = (owner, -SIGN, 0, None, None, b"")  # its own was damaged
            if row[0] != owner:
                raise StoreError(
                    f"{self.path}: channel {channel_id!r} belongs to {row[0]!r}, not to {owner!r}"
                )
            return load_channel(db, channel_id, row, limit)

    def channels(self) -> list[str]:
        return [r[0] for r in self._db.execute("SELECT id FROM channel ORDER BY rowid")]

    def commit(self, channel_id: str, changes: Sequence[fx.Change]) -> None:
        now = time.time()
        with self._transaction() as db:
            for change in changes:
                self._apply(db, channel_id, change, now)
            if any(isinstance(c, fx.ClockSet | fx.Evicted | fx.JoinedAt) for c in changes):
                seal_channel(db, channel_id)
            if any(isinstance(c, fx.Tombstone) for c in changes):
                trim(db, "tombstone", channel_id, TOMBSTONES)

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
        self,
        channel_id: str,
        after: Key | None,
        until: Key | None,
        items: int,
        size: int,
        *,
        newest_first: bool = False,
    ) -> tuple[list[StoredMessage], bool]:
        where = "channel = ? AND evicted = 0"
        values: list[str | int] = [channel_id]
        if after is not None:
            where += " AND (lamport, id) > (?, ?)"
            values += [after[0] - SIGN, after[1]]
        if until is not None:
            where += " AND (lamport, id) <= (?, ?)"
            values += [until[0] - SIGN, until[1]]
        order = "lamport DESC, id DESC" if newest_first else "lamport, id"
        rows = self._stored(f"{where} ORDER BY {order} LIMIT ?", (*values, items + 1))
        result = first_that_fit(rows, items, size)
        return result, len(result) < len(rows)

    def count(self, channel_id: str) -> int:
        return self._number(
            "SELECT count(*) FROM message WHERE channel = ? AND evicted = 0", channel_id
        )

    def gone(self, channel_id: str) -> Key | None:
        row = self._db.execute(
            "SELECT floor_lamport, floor_id FROM channel WHERE id = ?", (channel_id,)
        ).fetchone()
        return None if row is None or row[0] is None else (row[0] + SIGN, row[1])

    def deliveries(self, channel_id: str, after: int, limit: int) -> list[StoredDelivery]:
        with named_errors(self.path):
            rows = self._db.execute(
                f"SELECT {SEALED}, seal FROM message "
                "WHERE channel = ? AND position > ? AND position > 0 ORDER BY position LIMIT ?",
                (channel_id, after, limit),
            ).fetchall()
        for row in rows:
            if not whole(row):
                raise StoreError(
                    f"{self.path}: delivery {row[9]} is damaged; opened again, it is repaired"
                )
        return [StoredDelivery(r[9], r[7], tuple(json.loads(r[10])), r[3]) for r in rows]

    def consumed(self, channel_id: str) -> int:
        return self._number("SELECT consumed FROM channel WHERE id = ?", channel_id)

    def set_consumed(self, channel_id: str, position: int) -> None:
        with self._transaction() as db:
            db.execute("UPDATE channel SET consumed = ? WHERE id = ?", (position, channel_id))
            seal_channel(db, channel_id)
            db.execute(
                "DELETE FROM message WHERE channel = ? AND evicted = 1 AND position <= ?",
                (channel_id, position),
            )

    def offer(self, channel_id: str, position: int) -> int:
        with self._transaction() as db:
            db.execute(
                "UPDATE channel SET offers = iif(offered = ?, offers + 1, 1), offered = ? "
                "WHERE id = ?",
                (position, position, channel_id),
            )
            return self._number("SELECT offers FROM channel WHERE id = ?", channel_id)

    def trim_unread(self, channel_id: str, limit: int) -> int:
        with self._transaction() as db:
            return db.execute(
                "DELETE FROM message WHERE channel = ? AND evicted = 1 AND position <= "
                "(SELECT position FROM message WHERE channel = ? AND evicted = 1 "
                "ORDER BY position DESC LIMIT 1 OFFSET ?)",
                (channel_id, channel_id, limit),
            ).rowcount

    def purge(self, unread_limit: int | None = None) -> dict[str, Purged]:
        kept = self.retention
        if kept is None:
            return {}
        unread = "" if unread_limit is None else f" AND {_NOT_KEPT.format(int(unread_limit))}"
        with self._transaction() as db:
            rows = []
            if kept.max_age is not None:
                rows += db.execute(
                    f"DELETE FROM message WHERE received_at < ?{unread} RETURNING {_GONE}",
                    (time.time() - kept.max_age,),
                ).fetchall()
            count, total = db.execute("SELECT count(*), total(length(raw)) FROM message").fetchone()
            surplus = 0 if kept.max_messages is None else count - kept.max_messages
            excess = 0 if kept.max_bytes is None else total - kept.max_bytes
            if surplus > 0 or excess > 0:
                rows += db.execute(
                    "DELETE FROM message WHERE rowid IN (SELECT rowid FROM (SELECT rowid, "
                    "row_number() OVER oldest AS number, "
                    "sum(length(raw)) OVER oldest - length(raw) AS before "
                    "FROM message WINDOW oldest AS (ORDER BY received_at, rowid)) "
                    f"WHERE number <= ? OR before < ?){unread} RETURNING {_GONE}",
                    (surplus, excess),
                ).fetchall()
            result: dict[str, Purged] = {}
            for channel, lamport, message_id, sender, position in rows:
                self._depart(db, channel, sender, lamport + SIGN)
                key = (lamport + SIGN, message_id)
                is_unread = unread_limit is not None and position > self.consumed(channel)
                result.setdefault(channel, Purged([], key)).add(key, unread=is_unread)
            for channel, purged in result.items():
                floor = self.gone(channel)
                if floor is None or floor < purged.newest:
                    self._set_floor(db, channel, purged.newest)
                    seal_channel(db, channel)
            return result

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with named_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _apply(self, db: sqlite3.Connection, channel: str, change: fx.Change, now: float) -> None:
        match change:
            case fx.Logged(message_id=message_id, entry=entry):
                row = (
                    channel,
                    entry.lamport - SIGN,
                    message_id,
                    entry.sender_id,
                    entry.digest,
                    entry.own_seen,
                    digest_of(change.raw),
                    change.raw,
                    change.origin,
                    change.position,
                    json.dumps(change.missing),
                )
                head, outgoing = int(change.head), int(change.outgoing)
                checked = check(str(head), str(outgoing), "0")
                db.execute(
                    f"INSERT OR IGNORE INTO message VALUES ({', '.join('?' * 16)}, {checked})",
                    (*row, head, outgoing, now, 0, message_seal(row)),
                )
                db.executemany(
                    f"UPDATE message SET head = 0, flags = {check(head='0')} "
                    "WHERE channel = ? AND id = ?",
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
                    "INSERT OR IGNORE INTO incoming VALUES (?, ?, ?, ?, ?)",
                    (channel, message_id, raw, origin, seal(channel, message_id, raw, origin)),
                )
            case fx.Settled(message_id=message_id):
                db.execute(
                    f"UPDATE message SET outgoing = 0, flags = {check(outgoing='0')} "
                    "WHERE channel = ? AND id = ?",
                    (channel, message_id),
                )
            case fx.ClockSet(value=value):
                db.execute(
                    "UPDATE channel SET clock = max(clock, ?) WHERE id = ?",
                    (value - SIGN, channel),
                )
            case fx.Tombstone(message_id=message_id):
                put(db, "tombstone", channel, message_id)
            case fx.Unbuffered(message_id=message_id):
                db.execute(
                    "DELETE FROM incoming WHERE channel = ? AND id = ?", (channel, message_id)
                )
            case fx.Untracked(message_id=message_id):
                db.execute("DELETE FROM ack WHERE channel = ? AND id = ?", (channel, message_id))
            case fx.JoinedAt(since=since):
                put(db, "joined", channel, since - SIGN)
                if since:
                    self._set_floor(db, channel, (since + 1, ""))
            case fx.AckStored(message_id=message_id, by=by):
                put(db, "ack", channel, message_id, by)
            case fx.Evicted():
                if self.retention is None:
                    self._evict(db, channel, change)

    def _evict(self, db: sqlite3.Connection, channel: str, change: fx.Evicted) -> None:
        row = (channel, change.message_id)
        db.execute(
            "DELETE FROM message WHERE channel = ? AND id = ? AND position <= "
            "(SELECT consumed FROM channel WHERE id = ?)",
            (*row, channel),
        )
        db.execute(
            f"UPDATE message SET evicted = 1, flags = {check(evicted='1')} "
            "WHERE channel = ? AND id = ?",
            row,
        )
        db.execute("DELETE FROM ack WHERE channel = ? AND id = ?", row)
        self._depart(db, channel, change.sender_id, change.lamport)
        self._set_floor(db, channel, change.floor)

    def _depart(self, db: sqlite3.Connection, channel: str, sender: SenderId, clock: int) -> None:
        if not sender:
            return
        known = db.execute(
            "SELECT clock FROM departed WHERE channel = ? AND sender = ?", (channel, sender)
        ).fetchone()
        if known is None or known[0] < clock - SIGN:
            put(db, "departed", channel, sender, clock - SIGN)

    def _set_floor(self, db: sqlite3.Connection, channel: str, floor: Key) -> None:
        db.execute(
            "UPDATE channel SET floor_lamport = ?, floor_id = ? WHERE id = ?",
            (floor[0] - SIGN, floor[1], channel),
        )

    def _stored(self, where: str, values: Sequence[Any]) -> list[StoredMessage]:
        with named_errors(self.path):
            rows = self._db.execute(
                f"SELECT {SEALED}, seal FROM message WHERE {where}", values
            ).fetchall()
        return [StoredMessage((r[1] + SIGN, r[2]), r[7], r[8], r[3]) for r in rows if whole(r)]

    def _number(self, query: str, channel_id: str) -> int:
        with named_errors(self.path):
            row = self._db.execute(query, (channel_id,)).fetchone()
        return int(row[0] or 0) if row else 0


_NOT_KEPT = (
    "position <= max((SELECT consumed FROM channel WHERE channel.id = message.channel), "
    "coalesce((SELECT max(position) FROM message AS other "
    "WHERE other.channel = message.channel AND other.position > 0), 0) - {})"
)
"""What the application is done with, or is beyond the newest so many deliveries."""
_GONE = "channel, lamport, id, sender, position"
"""What is reported of a message that is purged."""
