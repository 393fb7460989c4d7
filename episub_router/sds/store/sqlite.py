"""A store in one SQLite file: WAL, one connection, every commit a transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.delivery import TOMBSTONES
from episub_router.sds.protocol.entry import Key, Restored, StoredMessage
from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.log import DEPARTED, PASSED
from episub_router.sds.protocol.message import MAX_LAMPORT, MessageId, Segment, SenderId
from episub_router.sds.store.sqlite_file import Durability, named_errors, open_file
from episub_router.sds.store.values import (
    Cursor,
    Following,
    Retention,
    SegmentPlace,
    StoreError,
    first_that_fit,
)

SIGN = 2**63
"""Clocks are unsigned and SQLite's integers aren't: all are stored less this."""
_MESSAGE = "channel, lamport, id, sender, raw, origin, missing"
"""What a message's sum covers: what never changes."""
_READ = f"{_MESSAGE}, sum"


class SqliteStore:
    """State that survives `kill -9` at any point; `durability` says whether a power failure too.

    Holds any number of channels. Calls come one at a time, from any thread. With `retention`,
    messages stay when they leave the participant's memory, until `purge` takes them. Every row has
    a sum: one that was altered is never handed out. It is removed on loading, and the participant
    fetches its message again.

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
        """By channel that was asked for it, how many messages it has."""

    def load(self, channel_id: str, owner: str, limit: int) -> Restored | None:
        """The channel's state with at most `limit` messages of its log; None if it is new.

        Raises StoreError if the channel belongs to another participant than `owner`: two
        participants with one state would use one clock twice.
        """
        with self._transaction() as db:
            self._remove_damaged(db, channel_id, limit)
            notes = _notes(db, channel_id)
            held_by = notes["owner"].get("", (0, 0, owner))[2]
            if held_by != owner:
                held = f"channel {channel_id!r} belongs to {held_by!r}, not to {owner!r}"
                raise StoreError(f"{self.path}: {held}")
            (newest,) = db.execute(
                "SELECT max(lamport) FROM message WHERE channel = ?", (channel_id,)
            ).fetchone()
            if not notes["owner"]:
                _note(db, channel_id, "owner", text=owner)
            if newest is None and not any(notes.values()):
                return None
            below = db.execute(
                "SELECT lamport, id FROM message WHERE channel = ? "
                "ORDER BY lamport DESC, id DESC LIMIT 1 OFFSET ?",
                (channel_id, limit),
            ).fetchone()
        clocks = [low for low, _, _ in notes["clock"].values()]
        floors = [(low + SIGN, text) for low, _, text in notes["floor"].values()]
        if below is not None:
            floors.append((below[0] + SIGN, below[1]))
        return Restored(
            clock=max([*clocks, -SIGN if newest is None else newest]) + SIGN,
            floor=max(floors, default=None),
            log=self._log(channel_id, below or (-SIGN, "")),
            tombstones=[*notes["lost"]],
            passed=[*notes["passed"]],
            departed={n: low + SIGN for n, (low, _, _) in notes["departed"].items()},
            acks={n: (low + SIGN, high + SIGN) for n, (low, high, _) in notes["ack"].items()},
            damaged=[*notes["damaged"]],
            since=next((low + SIGN for low, _, _ in notes["joined"].values()), None),
        )

    def _log(self, channel_id: str, after: tuple[int, str]) -> Iterator[StoredMessage]:
        """The log after a place, a row at a time. Its rows have been checked."""
        query = (
            "SELECT lamport, id, raw, origin, sender FROM message WHERE channel = ? "
            "AND (lamport, id) > (?, ?) ORDER BY lamport, id"
        )
        with (
            named_errors(self.path),
            closing(self._db.execute(query, (channel_id, *after))) as rows,
        ):
            for lamport, message_id, *rest in rows:
                yield StoredMessage((lamport + SIGN, message_id), *rest)

    def _remove_damaged(self, db: sqlite3.Connection, channel_id: str, limit: int) -> None:
        """Messages whose rows were altered go. It is noted below which clock the reader of the
        channel has had each of them.

        Of the newest `limit`, and of what is unread; older ones are checked when they are asked
        for. An altered row may be that of the id that it has, or of the one that its bytes have.
        """
        bad: list[tuple[int]] = []
        lamport, arrival, name = _noted(db, channel_id, "read") or (-SIGN, 0, "")
        at = (lamport, name)
        for n, *row in db.execute(
            f"SELECT n, {_READ} FROM message WHERE n IN (SELECT n FROM "
            "(SELECT n FROM message WHERE channel = ?1 ORDER BY lamport DESC LIMIT ?2) UNION "
            "SELECT n FROM message WHERE channel = ?1 AND (n > ?3 OR (lamport, id) > (?4, ?5)))",
            (channel_id, limit, arrival, *at),
        ):
            if not _whole(row):
                bad.append((n,))
                for message_id in (str(row[2]), hashlib.sha256(bytes(row[4])).hexdigest()):
                    had = at[0] + (message_id == at[1]) if n <= arrival else -SIGN
                    _note(db, channel_id, "damaged", message_id, n, had)
        db.executemany("DELETE FROM message WHERE n = ?", bad)

    def channels(self) -> list[str]:
        """The channels that have been loaded at some time."""
        known = "SELECT channel FROM note WHERE kind = 'owner' ORDER BY n"
        return [channel for (channel,) in self._db.execute(known)]

    def commit(self, channel_id: str, changes: Sequence[fx.Change]) -> None:
        """Apply all changes or, if the process dies, none."""
        kinds = {type(change) for change in changes}
        try:
            with self._transaction() as db:
                for change in changes:
                    self._apply(db, channel_id, change)
                self._add(db, channel_id, [c for c in changes if isinstance(c, fx.Logged)])
                if self.retention is None:
                    for change in changes:
                        if isinstance(change, fx.Evicted):
                            self._evict(db, channel_id, change)
                if fx.ClockSet in kinds:
                    clock = max(c.value for c in changes if isinstance(c, fx.ClockSet))
                    _note(db, channel_id, "clock", low=clock - SIGN)
                if fx.Tombstone in kinds:
                    _trim(db, channel_id, "lost", TOMBSTONES)
                    _trim(db, channel_id, "passed", PASSED)
                if fx.AckStored in kinds:
                    _trim(db, channel_id, "ack", MEMBERS)
        except BaseException:
            self._counts.pop(channel_id, None)
            raise

    def _add(self, db: sqlite3.Connection, channel: str, logged: Sequence[fx.Logged]) -> None:
        """Messages enter the log, and what was noted of their absence goes. One that the reader had
        before its row was damaged keeps the number of its arrival."""
        now, rows = time.time(), []
        for each in logged:
            message_id, segment = each.message.message_id, each.message.segment
            row = (
                channel,
                each.entry.lamport - SIGN,
                message_id,
                each.entry.sender_id,
                each.raw,
                each.origin,
                json.dumps(each.missing) if each.missing else "[]",
            )
            more = (segment.of, segment.index) if segment else (None, None)
            rows.append((*row, _message_sum(row), now, *more))
        damaged = "FROM note WHERE channel = ?1 AND kind = 'damaged' AND"
        inserted = db.executemany(
            f"INSERT OR IGNORE INTO message ({_READ}, received_at, segment, part, n) VALUES (?1, "
            f"?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, (SELECT low {damaged} name = ?3 AND "
            "?2 < high AND low NOT IN (SELECT n FROM message)))",
            rows,
        )
        self._counted(channel, inserted.rowcount)
        names = [(channel, each.message.message_id) for each in logged]
        db.executemany(f"DELETE {damaged} low = (SELECT low {damaged} name = ?2)", names)
        db.executemany("DELETE FROM note WHERE channel = ? AND kind = 'lost' AND name = ?", names)

    def _apply(self, db: sqlite3.Connection, channel: str, change: fx.Change) -> None:
        match change:
            case fx.Tombstone(message_id=message_id, lost=lost):
                _note(db, channel, "lost" if lost else "passed", message_id)
            case fx.JoinedAt(since=since):
                _note(db, channel, "joined", "", since - SIGN)
                if since:
                    self._forget(db, channel, since)
            case fx.SnapshotKept(until=until, digest=digest, state=state):
                kept = (channel, until - SIGN, digest, state, change.arrival)
                db.execute(
                    "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?)",
                    (*kept, _sum(*kept)),
                )
                db.execute(
                    "DELETE FROM snapshot WHERE channel = ? AND until < (SELECT until FROM "
                    "snapshot WHERE channel = ? ORDER BY until DESC LIMIT 1 OFFSET 1)",
                    (channel, channel),
                )
            case fx.AckStored(by=by, after=after, until=until):
                _note(db, channel, "ack", by, after - SIGN, until - SIGN)

    def get(
        self, channel_id: str, ids: Iterable[MessageId], size: int | None = None
    ) -> list[StoredMessage]:
        """Those of the messages that are logged; the first of them, up to `size` bytes."""
        where = "channel = ? AND id = ?"
        found = (
            stored
            for message_id in dict.fromkeys(ids)
            for stored in self._stored(where, (channel_id, message_id))
        )
        return list(found) if size is None else first_that_fit(found, -1, size)[0]

    def lacked(self, channel_id: str, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those of the messages that aren't logged."""
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
        """Messages with after < key <= until, ascending, and whether there are more.

        `newest_first`: the last of them, descending. `ids_only`: without their bytes.
        At most `items`, and with their proofs `size` bytes unless the first alone is larger.
        """
        where = "channel = ?"
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
        self, channel_id: str, cursor: Cursor, limit: int, but: SenderId = ""
    ) -> Following:
        """What follows for a reader of the total order.

        What arrived later than its cursor says, and belongs before its place, comes first.
        Otherwise the next message, if its clock is at most `limit`. `but`: whose aren't wanted.
        """
        place = cursor.place
        at = (-SIGN, "") if place is None else (place[0] - SIGN, place[1])
        until, gone = min(limit, MAX_LAMPORT) - SIGN, self.gone(channel_id)
        # By the number of its arrival, of which few are new; no index of places is of use.
        late = self._found(
            "message NOT INDEXED WHERE channel = ? AND n > ? AND (lamport, id) <= (?, ?) "
            "AND sender != ? ORDER BY n LIMIT 1",
            (channel_id, cursor.arrival, *at, but),
        )
        row = late or self._found(
            "message WHERE channel = ? AND (lamport, id) > (?, ?) AND lamport <= ? "
            "AND sender != ? ORDER BY lamport, id LIMIT 1",
            (channel_id, *at, until, but),
        )
        with named_errors(self.path):
            (newest,) = self._db.execute("SELECT max(n) FROM message").fetchone()
            if row is None:
                last = self._db.execute(
                    "SELECT lamport, id FROM message WHERE channel = ? AND lamport <= ? "
                    "ORDER BY lamport DESC, id DESC LIMIT 1",
                    (channel_id, until),
                ).fetchone()
                end = max((last[0] + SIGN, last[1]), place or (-1, "")) if last else place
                return Following(None, Cursor(end, newest or 0), gone)
        stored = StoredMessage((row[2] + SIGN, row[3]), row[5], row[6], row[4])
        after = Cursor(place, late[0]) if late else Cursor(stored.key, newest)
        return Following(stored, after, gone, late is not None, tuple(json.loads(row[7])))

    def _found(self, what: str, values: Sequence[str | int]) -> tuple[Any, ...] | None:
        """The first row of a query, behind the number with which it arrived."""
        with named_errors(self.path):
            row: tuple[Any, ...] | None = self._db.execute(
                f"SELECT n, {_READ} FROM {what}", values
            ).fetchone()
        if row is not None and not _whole(row[1:]):
            raise StoreError(
                f"{self.path}: message {row[3]} is damaged; opened again, it is repaired"
            )
        return row

    def segments(
        self, channel_id: str, key: Key, sender: SenderId, segment: Segment
    ) -> list[SegmentPlace]:
        """The segments of a content around a place, as many as it has on each side, ascending."""
        found: list[SegmentPlace] = []
        for compared, order in (("<=", "DESC"), (">", "ASC")):
            with named_errors(self.path):
                rows = self._db.execute(
                    "SELECT lamport, id, part, n FROM message WHERE channel = ? AND sender = ? AND "
                    f"segment = ? AND (lamport, id) {compared} (?, ?) "
                    f"ORDER BY lamport {order}, id {order} LIMIT ?",
                    (channel_id, sender, segment.of, key[0] - SIGN, key[1], segment.count),
                ).fetchall()
            found += (SegmentPlace((row[0] + SIGN, row[1]), row[2], row[3]) for row in rows)
        return sorted(found)

    def snapshots(self, channel_id: str) -> list[fx.SnapshotKept]:
        """The newest two snapshots, newest first."""
        with named_errors(self.path):
            found = self._db.execute(
                "SELECT * FROM snapshot WHERE channel = ? ORDER BY until DESC", (channel_id,)
            ).fetchall()
        return [fx.SnapshotKept(r[1] + SIGN, *r[2:5]) for r in found if _sum(*r[:5]) == r[5]]

    def snapshot_part(
        self, channel_id: str, until: int, digest: bytes, offset: int, size: int
    ) -> tuple[bytes, int] | None:
        """A part of a snapshot, and the size of all of it; None where it isn't kept, or ends
        before."""
        begin = min(offset, 2**40)
        with named_errors(self.path):
            found: tuple[bytes, int] | None = self._db.execute(
                "SELECT substr(state, ?, ?), length(state) FROM snapshot "
                "WHERE channel = ? AND until = ? AND digest = ? AND length(state) > ?",
                (begin + 1, size, channel_id, until - SIGN, digest, begin),
            ).fetchone()
        return found

    def count(self, channel_id: str) -> int:
        """How many messages are logged."""
        if channel_id not in self._counts:
            counted = "SELECT count(*) FROM message WHERE channel = ?"
            with named_errors(self.path):
                (count,) = self._db.execute(counted, (channel_id,)).fetchone()
            self._counts[channel_id] = count
        return self._counts[channel_id]

    def gone(self, channel_id: str) -> Key | None:
        """Up to where messages may have been removed; None if none was."""
        with named_errors(self.path):
            return _place(_noted(self._db, channel_id, "gone"))

    def reader(self, channel_id: str) -> Cursor:
        """Where the reader of the channel is."""
        with named_errors(self.path):
            read = _noted(self._db, channel_id, "read")
        return Cursor(_place(read), read[1] if read else 0)

    def set_reader(self, channel_id: str, cursor: Cursor) -> None:
        """It is done with everything up to there."""
        place = cursor.place or (0, "")
        with self._transaction() as db:
            _note(db, channel_id, "read", "", place[0] - SIGN, cursor.arrival, place[1])

    def purge(self) -> dict[str, list[Key]]:
        """Remove what `retention` doesn't keep, of which the places are returned by channel.

        What comes again at or below the newest of them isn't taken. The sender with most yields
        its oldest first, so that a flood takes its share.
        """
        kept = self.retention
        if kept is None:
            return {}
        gone = "RETURNING channel, lamport, id, sender"
        rows: list[tuple[Any, ...]] = []
        with self._transaction() as db:
            if kept.max_age is not None:
                # Too old is what was at an earlier purge, and is now, half an interval later.
                aged = int((time.time() - kept.max_age) * 1000)
                noted = (_noted(db, "", "aged") or (0,))[0]
                later = aged - noted >= kept.interval * 500
                if later or aged < noted:
                    _note(db, "", "aged", "", aged)
                if later:
                    rows = db.execute(
                        f"DELETE FROM message WHERE received_at < ? {gone}", (noted / 1000,)
                    ).fetchall()
            for size, most in (("1", kept.max_messages), ("length(raw)", kept.max_bytes)):
                (total,) = db.execute(f"SELECT total({size}) FROM message").fetchone()
                if most is None or total <= most:
                    continue
                rows += db.execute(
                    f"WITH held AS MATERIALIZED (SELECT n, sender, {size} AS size FROM message), "
                    "shares AS (SELECT *, sum(size) OVER (PARTITION BY sender ORDER BY n DESC) "
                    "AS share FROM held), sums AS (SELECT *, sum(size) OVER (ORDER BY share DESC, "
                    "n ROWS UNBOUNDED PRECEDING) AS total FROM shares) DELETE FROM message WHERE n "
                    f"IN (SELECT n FROM sums WHERE total - size < ?) {gone}",
                    (total - most,),
                ).fetchall()
            result: dict[str, list[Key]] = {}
            departed: dict[tuple[str, str], int] = {}
            for channel, lamport, message_id, sender in rows:
                departed[channel, sender] = max(lamport, departed.get((channel, sender), -SIGN))
                result.setdefault(channel, []).append((lamport + SIGN, message_id))
            for (channel, sender), clock in departed.items():
                _departed(db, channel, sender, clock)
            for channel, purged in result.items():
                _trim_departed(db, channel)
                _raise_place(db, channel, "floor", max(purged))
                _raise_place(db, channel, "gone", max(purged))
            self._counts.clear()
            return result

    def check_room(self, size: int) -> None:
        """Raises StoreFullError where there is no room for so many bytes."""
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
        """Give up the file. Nothing may be called afterwards."""
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

    def _evict(self, db: sqlite3.Connection, channel: str, change: fx.Evicted) -> None:
        removed = db.executemany(
            "DELETE FROM message WHERE channel = ? AND id = ?",
            [(channel, message_id) for _, message_id in change.places],
        ).rowcount
        self._counted(channel, -removed)
        for sender, clock in change.departed.items():
            _departed(db, channel, sender, clock - SIGN)
        if "" in change.departed:
            _trim_departed(db, channel)
        if change.floor is not None:
            _raise_place(db, channel, "floor", change.floor)
        _raise_place(db, channel, "gone", max(change.places))

    def _forget(self, db: sqlite3.Connection, channel: str, since: int) -> None:
        """Remove all up to a clock."""
        for name in ("floor", "gone"):
            _raise_place(db, channel, name, (since + 1, ""))
        db.execute(
            "DELETE FROM message WHERE channel = ? AND lamport <= ?", (channel, since - SIGN)
        )
        self._counts.pop(channel, None)

    def _counted(self, channel: str, more: int) -> None:
        if channel in self._counts:
            self._counts[channel] += more

    def _stored(self, where: str, values: Sequence[Any]) -> Iterator[StoredMessage]:
        """What is found, a row at a time: messages may be large."""
        query = f"SELECT {_READ} FROM message WHERE {where}"
        with named_errors(self.path), closing(self._db.execute(query, values)) as found:
            for row in found:
                if _whole(row):
                    yield StoredMessage((row[1] + SIGN, row[2]), row[4], row[5], row[3])


class MemoryStore(SqliteStore):
    """The same in memory, for participants that start from nothing each time."""

    def __init__(self, retention: Retention | None = None) -> None:
        super().__init__(":memory:", retention)

    def backup(self, path: str | Path) -> None:
        raise StoreError("a store in memory has no copy")


def _place(note: tuple[int, int, str] | None) -> Key | None:
    """The place that is noted; a reader's is none where its id is empty and nothing was read."""
    return None if note is None or note[::2] == (-SIGN, "") else (note[0] + SIGN, note[2])


def _sum(*fields: str | int | bytes) -> bytes:
    """A digest over a row's fields and types: what was altered on disk counts as not there."""
    return hashlib.blake2b(ascii(fields).encode(), digest_size=16).digest()


def _message_sum(row: Sequence[Any]) -> bytes:
    return _sum(*row[:4], hashlib.sha256(row[4]).digest(), *row[5:7])


def _whole(row: Sequence[Any]) -> bool:
    """Whether a row of `_READ` is as it was written."""
    return isinstance(row[4], bytes) and bool(_message_sum(row) == row[7])


def _note(
    db: sqlite3.Connection,
    channel: str,
    kind: str,
    name: str = "",
    low: int = 0,
    high: int = 0,
    text: str = "",
) -> None:
    """What is known of the channel, or of a sender or a message there, in place of what was."""
    row = (channel, kind, name, low, high, text)
    db.execute(
        "INSERT OR REPLACE INTO note (channel, kind, name, low, high, text, sum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*row, _sum(*row)),
    )


def _notes(
    db: sqlite3.Connection, channel: str, where: str = "", *values: str
) -> defaultdict[str, dict[str, tuple[int, int, str]]]:
    """Those of a channel by kind and name, as they were written, oldest first."""
    found = db.execute(
        f"SELECT channel, kind, name, low, high, text, sum FROM note WHERE channel = ? {where}"
        "ORDER BY n",
        (channel, *values),
    )
    notes: defaultdict[str, dict[str, tuple[int, int, str]]] = defaultdict(dict)
    for _, kind, name, *rest, digest in found:
        if _sum(channel, kind, name, *rest) == digest:
            notes[kind][name] = tuple(rest)
    return notes


def _noted(
    db: sqlite3.Connection, channel: str, kind: str, name: str = ""
) -> tuple[int, int, str] | None:
    return _notes(db, channel, "AND kind = ? AND name = ? ", kind, name)[kind].get(name)


def _raise_place(db: sqlite3.Connection, channel: str, name: str, place: Key) -> None:
    if place > (_place(_noted(db, channel, name)) or (-1, "")):
        _note(db, channel, name, low=place[0] - SIGN, text=place[1])


def _trim(db: sqlite3.Connection, channel: str, kind: str, limit: int) -> list[int]:
    """Keep the newest `limit` notes of a kind; the numbers of those that went."""
    gone = db.execute(
        "DELETE FROM note WHERE channel = ? AND kind = ? AND n <= (SELECT n FROM note "
        "WHERE channel = ? AND kind = ? ORDER BY n DESC LIMIT 1 OFFSET ?) RETURNING low",
        (channel, kind, channel, kind, limit),
    )
    return [low for (low,) in gone.fetchall()]


def _trim_departed(db: sqlite3.Connection, channel: str) -> None:
    """The highest clock of senders that are forgotten is kept under no name, as in the log."""
    gone = _trim(db, channel, "departed", DEPARTED)
    if gone:
        _departed(db, channel, "", max(gone))


def _departed(db: sqlite3.Connection, channel: str, sender: str, clock: int) -> None:
    """A sender's messages up to a clock may have left the log."""
    known = _noted(db, channel, "departed", sender)
    if known is None or known[0] < clock:
        _note(db, channel, "departed", sender, clock)
