"""The small tables, whose rows have seals too: what was altered there counts as not there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from episub_router.sds.store.sealing import seal

SMALL = {
    "tombstone": "channel, id",
    "departed": "channel, sender, clock",
    "ack": "channel, id, sender",
    "joined": "channel, since",
}
"""The tables with their columns, without the seal."""


def check(head: str = "head", outgoing: str = "outgoing", evicted: str = "evicted") -> str:
    """In SQL, what the column `flags` of a message must be, which changes too often for a seal:
    with the columns as they are, or as they become."""
    return f"(7 - {head} - 2 * {outgoing} - 4 * {evicted})"


def put(db: sqlite3.Connection, table: str, *row: str | int) -> None:
    """A row in place of the one with the same key, if there is one."""
    marks = ", ".join("?" * (len(row) + 1))
    db.execute(
        f"INSERT OR REPLACE INTO {table} ({SMALL[table]}, seal) VALUES ({marks})",
        (*row, seal(table, *row)),
    )


def rows(db: sqlite3.Connection, table: str, channel: str) -> Iterator[list[Any]]:
    """Those of a channel as they were written, oldest first, without the channel."""
    found = db.execute(
        f"SELECT {SMALL[table]}, seal FROM {table} WHERE channel = ? ORDER BY rowid", (channel,)
    )
    for *row, sealed in found.fetchall():
        if seal(table, *row) == sealed:
            yield row[1:]


def trim(db: sqlite3.Connection, table: str, channel: str, limit: int) -> None:
    """Keep the newest `limit` rows of a channel."""
    db.execute(
        f"DELETE FROM {table} WHERE channel = ? AND rowid <= (SELECT rowid FROM {table} "
        "WHERE channel = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?)",
        (channel, channel, limit),
    )


def mend_flags(db: sqlite3.Connection, channel: str) -> None:
    """Messages whose flags were altered: named once more, and if they are ours resent once more."""
    db.execute(
        "UPDATE message SET head = 1, outgoing = position = 0, evicted = 0, "
        f"flags = {check('1', '(position = 0)', '0')} WHERE channel = ? AND flags != {check()}",
        (channel,),
    )


def add_seals(db: sqlite3.Connection) -> None:
    """To the tables of a file of version 2, which had none."""
    db.execute("ALTER TABLE message ADD COLUMN flags INTEGER NOT NULL DEFAULT 0")
    db.execute(f"UPDATE message SET flags = {check()}")
    for table, columns in SMALL.items():
        db.execute(f"ALTER TABLE {table} ADD COLUMN seal BLOB NOT NULL DEFAULT x''")
        for n, *row in db.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
            db.execute(f"UPDATE {table} SET seal = ? WHERE rowid = ?", (seal(table, *row), n))
