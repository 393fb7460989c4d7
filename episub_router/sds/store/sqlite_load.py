"""Reading a channel's state from its tables, without what was damaged there."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any

from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.store.base import Saved
from episub_router.sds.store.sealing import seal
from episub_router.sds.store.sqlite_rows import mend_flags, rows

SIGN = 2**63
"""Clocks are unsigned and SQLite's integers aren't: all are stored less this."""
SEALED = "channel, lamport, id, sender, digest, own_seen, hash, raw, origin, position, missing"
"""What a message's seal covers, the raw bytes by their digest; see `whole`."""
_CHANNEL = "owner, clock, consumed, floor_lamport, floor_id"


def digest_of(raw: bytes) -> bytes:
    """By which messages are found, and their bytes are checked."""
    return hashlib.sha256(raw).digest()


def message_seal(row: tuple[Any, ...]) -> bytes:
    """The seal of a row of the columns SEALED."""
    return seal(*row[:7], digest_of(row[7]), *row[8:11])


def whole(row: tuple[Any, ...]) -> bool:
    """Whether a row of SEALED and the seal is as it was written."""
    return isinstance(row[7], bytes) and message_seal(row) == row[11]


def seal_channel(db: sqlite3.Connection, channel_id: str) -> None:
    """To be called in each transaction that changed the channel's row."""
    row = db.execute(f"SELECT {_CHANNEL} FROM channel WHERE id = ?", (channel_id,)).fetchone()
    if row is not None:
        db.execute("UPDATE channel SET seal = ? WHERE id = ?", (seal(*row), channel_id))


def load_channel(
    db: sqlite3.Connection, channel_id: str, row: tuple[Any, ...], limit: int
) -> Saved:
    """The channel whose row is `row`, with at most `limit` messages of its log."""
    intact = seal(*row[:5]) == row[5]
    # Where the row is damaged the application gets everything again rather than miss something.
    clock, consumed = (row[1], row[2]) if intact else (-SIGN, 0)
    floor = (row[3] + SIGN, row[4]) if intact and row[3] is not None else None
    if not intact:
        db.execute("UPDATE channel SET consumed = 0 WHERE id = ?", (channel_id,))
        seal_channel(db, channel_id)
    mend_flags(db, channel_id)
    damaged, highest = _remove_damaged(db, channel_id, consumed, limit)
    newest = db.execute(
        "SELECT lamport, id, sender, digest, own_seen, head FROM message "
        "WHERE channel = ? AND evicted = 0 ORDER BY lamport DESC, id DESC LIMIT ?",
        (channel_id, limit + 1),
    ).fetchall()
    if newest and not intact:
        clock = max(clock, newest[0][0])
    if len(newest) > limit:
        below = newest.pop()
        key: Key = (below[0] + SIGN, below[1])
        floor = key if floor is None else max(floor, key)
    joined = next(rows(db, "joined", channel_id), None)
    (position,) = db.execute(
        "SELECT coalesce(max(position), 0) FROM message WHERE channel = ?", (channel_id,)
    ).fetchone()
    return Saved(
        clock=clock + SIGN,
        position=max(position, consumed, highest),
        floor=floor,
        log=[(r[1], LogEntry(r[0] + SIGN, r[2], r[3], r[4]), bool(r[5])) for r in reversed(newest)],
        incoming=db.execute(
            "SELECT raw, origin FROM incoming WHERE channel = ? ORDER BY rowid", (channel_id,)
        ).fetchall(),
        outgoing=db.execute(
            "SELECT id, raw FROM message WHERE channel = ? AND outgoing = 1 ORDER BY own_seen",
            (channel_id,),
        ).fetchall(),
        tombstones=[message_id for (message_id,) in rows(db, "tombstone", channel_id)],
        departed={sender: value + SIGN for sender, value in rows(db, "departed", channel_id)},
        acks=_acks(db, channel_id),
        damaged=damaged,
        since=None if joined is None else joined[0] + SIGN,
    )


CHANNEL_COLUMNS = f"{_CHANNEL}, seal"


def _remove_damaged(
    db: sqlite3.Connection, channel_id: str, consumed: int, limit: int
) -> tuple[dict[MessageId, bool], int]:
    """The messages whose rows were altered, each with whether the application had it; and the
    highest position among them.

    Of the newest `limit`, and of what is unread. Older ones are checked when they are asked for.
    """
    damaged: dict[MessageId, bool] = {}
    highest = 0
    bad = []
    for n, *row in db.execute(
        f"SELECT rowid, {SEALED}, seal FROM message WHERE rowid IN (SELECT rowid FROM "
        "(SELECT rowid FROM message WHERE channel = ? ORDER BY lamport DESC LIMIT ?) UNION "
        "SELECT rowid FROM message WHERE channel = ? AND position > ?)",
        (channel_id, limit, channel_id, consumed),
    ):
        if not whole(tuple(row)):
            bad.append((n,))
            position = row[9] if isinstance(row[9], int) else consumed + 1
            damaged[str(row[2])] = position <= consumed  # ours have none
            highest = max(highest, min(position, consumed))
    db.executemany("DELETE FROM message WHERE rowid = ?", bad)
    bad = []
    for n, *row in db.execute(
        "SELECT rowid, channel, id, raw, origin, seal FROM incoming WHERE channel = ?",
        (channel_id,),
    ):
        if seal(*row[:-1]) != row[-1]:
            bad.append((n,))
            damaged[str(row[1])] = False
    db.executemany("DELETE FROM incoming WHERE rowid = ?", bad)
    return damaged, highest


def _acks(db: sqlite3.Connection, channel_id: str) -> dict[MessageId, list[SenderId]]:
    result: dict[MessageId, list[SenderId]] = {}
    for message_id, sender in rows(db, "ack", channel_id):
        result.setdefault(message_id, []).append(sender)
    return result
