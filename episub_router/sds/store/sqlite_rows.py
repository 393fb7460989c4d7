"""Rows that are checked when they are read: what was altered on disk counts as not there."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

_SIZE = 16
SMALL = {
    "tombstone": "channel, id",
    "departed": "channel, sender, clock",
    "ack": "channel, sender, after, until",
    "joined": "channel, since",
}
"""The small tables with their columns, without the sum."""


def sum_of(*fields: str | int | bytes) -> bytes:
    """A digest over a row's fields, each with its type and length."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    for field in fields:
        if isinstance(field, bytes):
            data, kind = field, b"b"
        else:
            data, kind = str(field).encode("utf-8", "surrogatepass"), type(field).__name__.encode()
        digest.update(b"%s%d:" % (kind, len(data)))
        digest.update(data)
    return digest.digest()


def put(db: sqlite3.Connection, table: str, *row: str | int) -> None:
    """A row in place of the one with the same key, if there is one."""
    marks = ", ".join("?" * (len(row) + 1))
    db.execute(
        f"INSERT OR REPLACE INTO {table} ({SMALL[table]}, sum) VALUES ({marks})",
        (*row, sum_of(table, *row)),
    )


def rows(db: sqlite3.Connection, table: str, channel: str) -> Iterator[list[Any]]:
    """Those of a channel as they were written, oldest first, without the channel."""
    found = db.execute(
        f"SELECT {SMALL[table]}, sum FROM {table} WHERE channel = ? ORDER BY rowid", (channel,)
    )
    for *row, written in found.fetchall():
        if sum_of(table, *row) == written:
            yield row[1:]


def trim(db: sqlite3.Connection, table: str, channel: str, limit: int) -> None:
    """Keep the newest `limit` rows of a channel."""
    db.execute(
        f"DELETE FROM {table} WHERE channel = ? AND rowid <= (SELECT rowid FROM {table} "
        "WHERE channel = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?)",
        (channel, channel, limit),
    )
