"""A store in one SQLite file: WAL, one connection, every commit a transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.causal.tombstones import TOMBSTONES
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.message import MAX_LAMPORT, MessageId, SenderId
from episub_router.sds.store.base import (
    Following,
    Purged,
    Retention,
    Saved,
    Store,
    StoredDelivery,
    StoredMessage,
    StoreError,
    first_that_fit,
)
from episub_router.sds.store.sqlite_file import Durability, named_errors, open_file
from episub_router.sds.store.sqlite_rows import put, rows, sum_of, trim

SIGN = 2**63
"""Clocks are unsigned and SQLite's integers aren't: all are stored less this."""
_CHANNEL = "owner, clock, consumed, floor_lamport, floor_id, gone_lamport, gone_id"
_MESSAGE = "channel, lamport, id, sender, raw, origin, position, missing"
"""What a message's sum covers: what never changes."""
_READ = f"{_MESSAGE}, sum"
_MANY = 2**31


class SqliteStore(Store):
    """State that survives `kill -9` at any point; `durability` says whether a power failure too.

    With `retention`, messages stay when they leave the participant's memory, until `purge` takes
    them. Every row has a sum: one that was altered is never handed out. It is removed on
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
        self._counts: Counter[str] = Counter()
        """By channel that was asked for it, how many messages it has that aren't evicted."""

    def load(self, channel_id: str, owner: str, limit: int) -> Saved | None:
        with self._transaction() as db:
            row = self._channel(db, channel_id)
            if row is None:
                db.execute(
                    "INSERT INTO channel VALUES (?, ?, ?, 0, NULL, NULL, NULL, NULL, 0, 0, x'')",
                    (channel_id, owner, -SIGN),
                )
                known = "SELECT count(*) FROM (SELECT 1 FROM message WHERE channel = ? LIMIT 1)"
                if not self._number(known, channel_id):
                    _sum_channel(db, channel_id)
                    return None
                row = (owner, -SIGN, 0, None, None, None, None, b"")  # its own was damaged
            if row[0] != owner:
                raise StoreError(
                    f"{self.path}: channel {channel_id!r} belongs to {row[0]!r}, not to {owner!r}"
                )
            return self._load(db, channel_id, row, limit)

    def _load(
        self, db: sqlite3.Connection, channel_id: str, row: tuple[Any, ...], limit: int
    ) -> Saved:
        intact = sum_of(*row[:7]) == row[7]
        # Where the row is damaged the application gets everything again rather than miss something.
        clock, consumed = (row[1], row[2]) if intact else (-SIGN, 0)
        floor = _key(row[3], row[4]) if intact else None
        if not intact:
            db.execute("UPDATE channel SET consumed = 0 WHERE id = ?", (channel_id,))
            _sum_channel(db, channel_id)
        departed: dict[SenderId, int] = dict(rows(db, "departed", channel_id))
        # What has left a sender's messages is known by clock: others can't be evicted.
        db.execute(
            "UPDATE message SET evicted = 0 WHERE channel = ? AND evicted = 1 AND lamport > "
            "(SELECT clock FROM departed WHERE channel = message.channel "
            "AND sender = message.sender)",
            (channel_id,),
        )
        damaged = self._remove_damaged(db, channel_id, consumed, limit)
        newest = db.execute(
            "SELECT lamport, id, sender, raw, origin, outgoing FROM message "
            "WHERE channel = ? AND evicted = 0 ORDER BY lamport DESC, id DESC LIMIT ?",
            (channel_id, limit + 1),
        ).fetchall()
        if newest and not intact:
            clock = max(clock, newest[0][0])
        if len(newest) > limit:
            below = newest.pop()
            key: Key = (below[0] + SIGN, below[1])
            floor = key if floor is None else max(floor, key)
        newest.reverse()
        joined = next(rows(db, "joined", channel_id), None)
        position = self._number(
            "SELECT coalesce(max(position), 0) FROM message WHERE channel = ?", channel_id
        )
        return Saved(
            clock=clock + SIGN,
            position=max(position, consumed),
            floor=floor,
            log=[StoredMessage((r[0] + SIGN, r[1]), r[3], r[4], r[2]) for r in newest],
            incoming=db.execute(
                "SELECT raw, origin FROM incoming WHERE channel = ? ORDER BY rowid", (channel_id,)
            ).fetchall(),
            outgoing={r[1]: r[3] for r in newest if r[5]},
            tombstones=[message_id for (message_id,) in rows(db, "tombstone", channel_id)],
            departed={sender: value + SIGN for sender, value in departed.items()},
            acks={s: (a + SIGN, u + SIGN) for s, a, u in rows(db, "ack", channel_id)},
            damaged=damaged,
            since=None if joined is None else joined[0] + SIGN,
        )

    def _remove_damaged(
        self, db: sqlite3.Connection, channel_id: str, consumed: int, limit: int
    ) -> dict[MessageId, bool]:
        """The messages whose rows were altered, each with whether the application had it.

        Of the newest `limit`, and of what is unread; older ones are checked when they are asked
        for. An altered row may be that of the id that it has, or of the one that its bytes have.
        """
        damaged: dict[MessageId, bool] = {}
        bad: list[tuple[int, str]] = []
        for n, *row in db.execute(
            f"SELECT n, {_READ} FROM message WHERE n IN (SELECT n FROM "
            "(SELECT n FROM message WHERE channel = ? ORDER BY lamport DESC LIMIT ?) UNION "
            "SELECT n FROM message WHERE channel = ? AND position > ?)",
            (channel_id, limit, channel_id, consumed),
        ):
            if not _whole(row):
                bad.append((n, str(row[2])))
                # Rows are written in the order of positions.
                (before,) = db.execute(
                    "SELECT coalesce(max(position), 0) FROM message WHERE channel = ? AND n < ?",
                    (channel_id, n),
                ).fetchone()
                for message_id in (str(row[2]), hashlib.sha256(bytes(row[4])).hexdigest()):
                    damaged[message_id] = before < consumed
        db.executemany("DELETE FROM message WHERE n = ?", [(n,) for n, _ in bad])
        gone = []
        for n, *row in db.execute(
            "SELECT rowid, channel, id, raw, origin, sum FROM incoming WHERE channel = ?",
            (channel_id,),
        ):
            if sum_of(*row[:-1]) != row[-1]:
                gone.append((n,))
                damaged[str(row[1])] = False
        db.executemany("DELETE FROM incoming WHERE rowid = ?", gone)
        return damaged

    def channels(self) -> list[str]:
        return [r[0] for r in self._db.execute("SELECT id FROM channel ORDER BY rowid")]

    def commit(self, channel_id: str, changes: Sequence[fx.Change]) -> None:
        now = time.time()
        try:
            self._commit(channel_id, changes, now)
        except BaseException:
            self._counts.pop(channel_id, None)
            raise

    def _commit(self, channel_id: str, changes: Sequence[fx.Change], now: float) -> None:
        with self._transaction() as db:
            for change in changes:
                self._apply(db, channel_id, change, now)
            if any(isinstance(c, fx.ClockSet | fx.Evicted | fx.JoinedAt) for c in changes):
                _sum_channel(db, channel_id)
            if any(isinstance(c, fx.Tombstone) for c in changes):
                trim(db, "tombstone", channel_id, TOMBSTONES)
            if any(isinstance(c, fx.AckStored) for c in changes):
                trim(db, "ack", channel_id, MEMBERS)

    def get(
        self, channel_id: str, ids: Iterable[MessageId], size: int | None = None
    ) -> list[StoredMessage]:
        found = (
            stored
            for message_id in dict.fromkeys(ids)
            for stored in self._stored("channel = ? AND id = ?", (channel_id, message_id))
        )
        return list(found) if size is None else first_that_fit(found, _MANY, size)[0]

    def lacked(self, channel_id: str, ids: Iterable[MessageId]) -> list[MessageId]:
        known = "SELECT 1 FROM message WHERE channel = ? AND id = ?"
        with named_errors(self.path):
            return [i for i in ids if not self._db.execute(known, (channel_id, i)).fetchone()]

    def page(
        self,
        channel_id: str,
        after: Key | None,
        until: Key | None,
        items: int,
        size: int,
        *,
        newest_first: bool = False,
        ids_only: bool = False,
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
        where, values = f"{where} ORDER BY {order} LIMIT ?", [*values, items + 1]
        if not ids_only:
            return first_that_fit(self._stored(where, values), items, size)
        with named_errors(self.path):
            found = self._db.execute(f"SELECT lamport, id FROM message WHERE {where}", values)
            keys = [(lamport + SIGN, message_id) for lamport, message_id in found]
        return [StoredMessage(key, b"", b"") for key in keys[:items]], len(keys) > items

    def following(
        self, channel_id: str, place: Key | None, arrival: int, limit: int
    ) -> Following | None:
        at = (-SIGN, "") if place is None else (place[0] - SIGN, place[1])
        # By the number of its arrival, of which few are new; no index of places is of use.
        late = self._found(
            "message NOT INDEXED WHERE channel = ? AND n > ? AND (lamport, id) <= (?, ?) "
            "ORDER BY n LIMIT 1",
            (channel_id, arrival, *at),
        )
        if late is not None and place is not None:
            return Following(late[1], True, late[0])
        found = self._found(
            "message WHERE channel = ? AND evicted = 0 AND (lamport, id) > (?, ?) AND lamport <= ? "
            "ORDER BY lamport, id LIMIT 1",
            (channel_id, *at, min(limit, MAX_LAMPORT) - SIGN),
        )
        if found is None:
            return None
        (newest,) = self._db.execute("SELECT max(n) FROM message").fetchone()
        return Following(found[1], False, newest)

    def _found(self, what: str, values: Sequence[str | int]) -> tuple[int, StoredMessage] | None:
        """The first message of a query, with the number with which it arrived."""
        with named_errors(self.path):
            row = self._db.execute(f"SELECT n, {_READ} FROM {what}", values).fetchone()
        if row is None:
            return None
        if not _whole(row[1:]):
            raise StoreError(f"{self.path}: a message is damaged; opened again, it is repaired")
        return row[0], StoredMessage((row[2] + SIGN, row[3]), row[5], row[6], row[4])

    def count(self, channel_id: str) -> int:
        if channel_id not in self._counts:
            self._counts[channel_id] = self._number(
                "SELECT count(*) FROM message WHERE channel = ? AND evicted = 0", channel_id
            )
        return self._counts[channel_id]

    def gone(self, channel_id: str) -> Key | None:
        with named_errors(self.path):
            row = self._db.execute(
                "SELECT gone_lamport, gone_id FROM channel WHERE id = ?", (channel_id,)
            ).fetchone()
        return None if row is None else _key(*row)

    def deliveries(self, channel_id: str, after: int, limit: int) -> list[StoredDelivery]:
        with named_errors(self.path):
            found = self._db.execute(
                f"SELECT {_READ} FROM message "
                "WHERE channel = ? AND position > ? AND position > 0 ORDER BY position LIMIT ?",
                (channel_id, after, limit),
            ).fetchall()
        for row in found:
            if not _whole(row):
                raise StoreError(
                    f"{self.path}: delivery {row[6]} is damaged; opened again, it is repaired"
                )
        return [StoredDelivery(r[6], r[4], tuple(json.loads(r[7])), r[3]) for r in found]

    def consumed(self, channel_id: str) -> int:
        return self._number("SELECT consumed FROM channel WHERE id = ?", channel_id)

    def set_consumed(self, channel_id: str, position: int) -> None:
        with self._transaction() as db:
            db.execute("UPDATE channel SET consumed = ? WHERE id = ?", (position, channel_id))
            _sum_channel(db, channel_id)
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
                    (self._too_old_before(kept),),
                ).fetchall()
            count, total = db.execute("SELECT count(*), total(length(raw)) FROM message").fetchone()
            surplus = 0 if kept.max_messages is None else count - kept.max_messages
            excess = 0 if kept.max_bytes is None else total - kept.max_bytes
            if surplus > 0 or excess > 0:
                rows += db.execute(
                    "DELETE FROM message WHERE n IN (SELECT n FROM (SELECT n, "
                    "row_number() OVER oldest AS number, "
                    "sum(length(raw)) OVER oldest - length(raw) AS before "
                    "FROM message WINDOW oldest AS (ORDER BY received_at, n)) "
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
                row = self._channel(db, channel)
                floor = None if row is None else _key(row[3], row[4])
                if floor is None or floor < purged.newest:
                    self._set_place(db, channel, "floor", purged.newest)
                self._raise_gone(db, channel, purged.newest)
                _sum_channel(db, channel)
            self._counts.clear()
            return result

    def check_room(self, size: int) -> None:
        with self._transaction() as db:
            db.execute("INSERT INTO room VALUES (zeroblob(?))", (size,))
        with self._transaction() as db:
            db.execute("DELETE FROM room")

    def backup(self, path: str | Path) -> None:
        """Write a copy of the whole file as it is now, while it is in use.

        The copy is the same participant: open it in place of this file, never beside it.
        """
        with named_errors(self.path), closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)

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
                    change.raw,
                    change.origin,
                    change.position,
                    json.dumps(change.missing),
                )
                added = db.execute(
                    f"INSERT OR IGNORE INTO message ({_READ}, outgoing, received_at, evicted) "
                    f"VALUES ({', '.join('?' * 12)})",
                    (*row, _message_sum(row), int(change.outgoing), now, 0),
                ).rowcount
                self._counted(channel, added)
                db.execute(
                    "DELETE FROM incoming WHERE channel = ? AND id = ?", (channel, message_id)
                )
                db.execute(
                    "DELETE FROM tombstone WHERE channel = ? AND id = ?", (channel, message_id)
                )
            case fx.Buffered(message_id=message_id, raw=raw, origin=origin):
                db.execute(
                    "INSERT OR IGNORE INTO incoming VALUES (?, ?, ?, ?, ?)",
                    (channel, message_id, raw, origin, sum_of(channel, message_id, raw, origin)),
                )
            case fx.Settled(message_id=message_id):
                db.execute(
                    "UPDATE message SET outgoing = 0 WHERE channel = ? AND id = ?",
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
            case fx.JoinedAt(since=since):
                put(db, "joined", channel, since - SIGN)
                if since:
                    self._set_place(db, channel, "floor", (since + 1, ""))
                    self._set_place(db, channel, "gone", (since + 1, ""))
            case fx.AckStored(by=by, after=after, until=until):
                put(db, "ack", channel, by, after - SIGN, until - SIGN)
            case fx.Evicted():
                if self.retention is None:
                    self._evict(db, channel, change)

    def _evict(self, db: sqlite3.Connection, channel: str, change: fx.Evicted) -> None:
        row = (channel, change.message_id)
        removed = db.execute(
            "DELETE FROM message WHERE channel = ? AND id = ? AND position <= "
            "(SELECT consumed FROM channel WHERE id = ?)",
            (*row, channel),
        ).rowcount
        removed += db.execute(
            "UPDATE message SET evicted = 1 WHERE channel = ? AND id = ?", row
        ).rowcount
        self._counted(channel, -removed)
        self._depart(db, channel, change.sender_id, change.lamport)
        if change.floor is not None:
            self._set_place(db, channel, "floor", change.floor)
        self._raise_gone(db, channel, (change.lamport, change.message_id))

    def _counted(self, channel: str, more: int) -> None:
        if channel in self._counts:
            self._counts[channel] += more

    def _channel(self, db: sqlite3.Connection, channel: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = db.execute(
            f"SELECT {_CHANNEL}, sum FROM channel WHERE id = ?", (channel,)
        ).fetchone()
        return row

    def _depart(self, db: sqlite3.Connection, channel: str, sender: SenderId, clock: int) -> None:
        if not sender:
            return
        known = db.execute(
            "SELECT clock FROM departed WHERE channel = ? AND sender = ?", (channel, sender)
        ).fetchone()
        if known is None or known[0] < clock - SIGN:
            put(db, "departed", channel, sender, clock - SIGN)

    def _set_place(self, db: sqlite3.Connection, channel: str, name: str, place: Key) -> None:
        db.execute(
            f"UPDATE channel SET {name}_lamport = ?, {name}_id = ? WHERE id = ?",
            (place[0] - SIGN, place[1], channel),
        )

    def _raise_gone(self, db: sqlite3.Connection, channel: str, place: Key) -> None:
        gone = self.gone(channel)
        if gone is None or gone < place:
            self._set_place(db, channel, "gone", place)

    def _stored(self, where: str, values: Sequence[Any]) -> Iterator[StoredMessage]:
        """What is found, a row at a time: messages may be large."""
        with (
            named_errors(self.path),
            closing(
                self._db.execute(f"SELECT {_READ} FROM message WHERE {where}", values)
            ) as found,
        ):
            for row in found:
                if _whole(row):
                    yield StoredMessage((row[1] + SIGN, row[2]), row[4], row[5], row[3])

    def _number(self, query: str, channel_id: str) -> int:
        with named_errors(self.path):
            row = self._db.execute(query, (channel_id,)).fetchone()
        return int(row[0] or 0) if row else 0


def _key(lamport: int | None, message_id: str) -> Key | None:
    return None if lamport is None else (lamport + SIGN, message_id)


def _message_sum(row: Sequence[Any]) -> bytes:
    return sum_of(*row[:4], hashlib.sha256(row[4]).digest(), *row[5:8])


def _whole(row: Sequence[Any]) -> bool:
    """Whether a row of `_READ` is as it was written."""
    return isinstance(row[4], bytes) and bool(_message_sum(row) == row[8])


def _sum_channel(db: sqlite3.Connection, channel_id: str) -> None:
    """To be called in each transaction that changed the channel's row."""
    row = db.execute(f"SELECT {_CHANNEL} FROM channel WHERE id = ?", (channel_id,)).fetchone()
    if row is not None:
        db.execute("UPDATE channel SET sum = ? WHERE id = ?", (sum_of(*row), channel_id))


_NOT_KEPT = (
    "position <= max((SELECT consumed FROM channel WHERE channel.id = message.channel), "
    "coalesce((SELECT max(position) FROM message AS other "
    "WHERE other.channel = message.channel AND other.position > 0), 0) - {})"
)
"""What the application is done with, or is beyond the newest so many deliveries."""
_GONE = "channel, lamport, id, sender, position"
"""What is reported of a message that is purged."""
