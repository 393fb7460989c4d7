"""What a store keeps; the one on disk survives being killed and refuses what it can't read."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sqlite3
import sys
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from episub_router.sds.net.access import access_of, channel_of, store_key
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol import log
from episub_router.sds.protocol.delivery import TOMBSTONES
from episub_router.sds.protocol.entry import Key, LogEntry, Restored
from episub_router.sds.protocol.message import Segment
from episub_router.sds.store import sqlite
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from episub_router.sds.store.sqlite_file import Durability
from episub_router.sds.store.values import (
    Cursor,
    Following,
    Retention,
    SegmentPlace,
    StoreError,
    StoreFullError,
)
from episub_router.sds.wire.codec import hash_of
from tests import children
from tests.forking import forked
from tests.sds.sqlite import connection, pragma, sqlite_limit
from tests.sds.store_writer import logged


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    assert store.load("c", "alice", 100) is None
    yield store
    store.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store on disk, which a test may close."""
    store = SqliteStore(tmp_path / "s.db")
    store.load("c", "alice", 100)
    yield store
    store.close()


def loaded(store: SqliteStore) -> Restored:
    saved = store.load("c", "alice", 100)
    return replace(saved, log=tuple(saved.log))


def evicted(*places: Key) -> fx.Evicted:
    return fx.Evicted(places, max(places), {"alice": max(places)[0]})


def altered(path: Path, *statements: str) -> None:
    """The file is changed behind the store's back."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def test_a_channel_comes_back_as_it_was(store: SqliteStore) -> None:
    store.commit(
        "c",
        [
            fx.ClockSet(2**64 - 1),
            fx.ClockSet(3),
            logged("b", 2**64 - 1, missing=("x",)),
            logged("a", 5),
            logged("d", 6),
            fx.Tombstone("x"),
        ],
    )
    saved = store.load("c", "alice", 100)
    assert (saved.clock, saved.floor) == (2**64 - 1, None)
    assert [stored.key for stored in saved.log] == [(5, "a"), (6, "d"), (2**64 - 1, "b")]
    assert saved.tombstones == ["x"]
    assert store.following("c", Cursor((6, "d"), 3), 2**64).missing == ("x",)
    assert store.load("c", "alice", 2).floor == (5, "a")  # type: ignore[union-attr]


def test_a_reader_of_the_total_order_gets_each_message_once(store: SqliteStore) -> None:
    """Late ones are named, whatever was read before, and those that came meanwhile."""
    at = Following(None, Cursor(), None)

    def read(limit: int = 2**63) -> tuple[str, bool] | None:
        nonlocal at
        at = store.following("c", at.cursor, limit)
        return None if at.stored is None else (at.stored.key[1], at.late)

    store.commit("c", [logged("a", 10), logged("c", 30)])
    assert read() == ("a", False)
    store.commit("c", [logged("b", 20)])  # in its place
    assert [read(), read(), read()] == [("b", False), ("c", False), None]
    store.commit("c", [logged("y", 5), logged("x", 15), logged("d", 40)])
    assert [read(39), read(39), read(39)] == [("y", True), ("x", True), None]
    assert [read(), read()] == [("d", False), None]


def test_a_reader_passes_over_what_it_does_not_want(store: SqliteStore) -> None:
    """A thousand of its own messages are read once, and not at each step."""
    store.commit("c", [logged("a", 10), logged("c", 30)])
    nothing = store.following("c", Cursor(), 2**63, "alice")
    assert (nothing.stored, nothing.cursor) == (None, Cursor((30, "c"), 2))
    by_bob = replace(logged("b", 20), entry=LogEntry(20, "bob", 0))
    store.commit("c", [by_bob])
    found = store.following("c", nothing.cursor, 2**63, "alice")
    assert (found.stored.key[1], found.late, found.cursor.place) == ("b", True, (30, "c"))


def test_channels_are_apart_and_owned(store: SqliteStore) -> None:
    store.load("other", "alice", 100)
    store.commit("c", [logged("a", 5)])
    assert store.count("c") == 1
    assert store.count("other") == 0
    assert store.get("other", ["a"]) == []
    with pytest.raises(StoreError, match="belongs to 'alice', not to 'bob'"):
        store.load("c", "bob", 100)
    store.load("c", "alice", 100)
    assert store.channels() == ["c", "other"]  # as they came


def test_a_store_that_nobody_uses_any_more_is_gone() -> None:
    """Each one in memory stayed for as long as the process."""
    store = MemoryStore()
    assert access_of(store) is access_of(store)
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None


def test_reading_by_id_and_page(store: SqliteStore) -> None:
    store.commit("c", [logged(f"m{i}", 10 + i // 2, raw=b"r" * 10) for i in range(10)])
    assert [s.key[1] for s in store.get("c", ["m3", "no", "m1", "m3"])] == ["m3", "m1"]
    assert [s.key[1] for s in store.get("c", ["m3", "m1", "m2"], 25)] == ["m3", "m1"]
    assert store.lacked("c", ["m3", "no"]) == ["no"]
    store.commit("c", [logged("h", 99, raw=b"found")])
    page, more = store.page("c", (10, "m1"), (13, "m6"), 3, 1000)
    assert ([s.key[1] for s in page], more) == (["m2", "m3", "m4"], True)
    page, more = store.page("c", (11, "m3"), (13, "m6"), 3, 1000)
    assert ([s.key[1] for s in page], more) == (["m4", "m5", "m6"], False)
    page, more = store.page("c", None, None, 100, 25)
    assert ([s.key[1] for s in page], more) == (["m0", "m1"], True)
    page, more = store.page("c", None, None, 100, 5)
    assert ([s.key[1] for s in page], more) == (["m0"], True)
    page, more = store.page("c", (10, "m0"), (13, "m6"), 4, 1000, newest_first=True)
    assert ([s.key[1] for s in page], more) == (["m6", "m5", "m4", "m3"], True)
    page, more = store.page("c", (10, "m0"), (11, "m3"), 4, 1000, newest_first=True)
    assert ([s.key[1] for s in page], more) == (["m3", "m2", "m1"], False)
    page, more = store.page("c", None, None, 2, 1000, newest_first=True)
    assert ([s.key[1] for s in page], more) == (["h", "m9"], True)
    page, more = store.page("c", None, None, 2, 1, newest_first=True, ids_only=True)
    assert ([(s.key[1], s.raw) for s in page], more) == ([("h", b""), ("m9", b"")], True)


def test_eviction_and_consumption(store: SqliteStore) -> None:
    store.commit("c", [logged("a", 1), logged("b", 2)])
    assert store.reader("c") == Cursor()
    store.set_reader("c", Cursor((1, "a"), 2))
    store.commit("c", [evicted((1, "a"))])
    assert (store.reader("c"), store.gone("c")) == (Cursor((1, "a"), 2), (1, "a"))
    following = store.following("c", store.reader("c"), 2**63)
    assert (following.stored.key, following.gone) == ((2, "b"), (1, "a"))
    saved = store.load("c", "alice", 100)
    assert saved.floor == (1, "a")


def test_retention_by_age_and_size(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", Retention(1000.0, max_bytes=35))
    store.load("c", "node", 100)
    store.commit("c", [logged(f"m{i}", i, raw=b"x" * 10) for i in range(5)])
    store.commit("c", [evicted((0, "m0"))])
    assert store.count("c") == 5  # a store node's disk keeps what its memory doesn't
    assert store.purge() == {"c": [(0, "m0"), (1, "m1")]}
    assert store.gone("c") == (1, "m1")
    assert [s.key[1] for s in store.page("c", None, None, 9, 999)[0]] == ["m2", "m3", "m4"]
    store.retention = Retention(max_age=-1.0, max_bytes=35, interval=0.0)
    assert store.purge() == {}  # the time of day may be wrong
    assert store.purge() == {"c": [(n, f"m{n}") for n in (2, 3, 4)]}
    assert store.purge() == {}
    store.close()


@pytest.mark.parametrize("limit", [{"max_messages": 100}, {"max_bytes": 1000}])
def test_a_flood_pushes_nobody_else_out_of_what_is_kept(limit: dict[str, int]) -> None:
    """Of 50 honest messages none was left after 200 of one flooder."""
    store = MemoryStore(Retention(**{"max_age": None, "max_bytes": None} | limit))
    store.load("c", "alice", 1000)
    honest = [logged(f"honest {n}", n, raw=bytes(10)) for n in range(50)]
    flood = [logged(f"flood {n}", 100 + n, raw=bytes(10)) for n in range(200)]
    by_mallory = [replace(m, entry=LogEntry(m.entry.lamport, "mallory", 0)) for m in flood]
    store.commit("c", [*honest, *by_mallory])
    gone = store.purge()["c"]
    assert [message_id for _, message_id in gone] == [m.message.message_id for m in flood[:150]]
    assert store.count("c") == 100


def test_a_process_that_is_short_removes_what_is_too_old(tmp_path: Path) -> None:
    """What was too old at the last purge was known to the process alone."""
    for kept in (1, 0):
        store = SqliteStore(tmp_path / "s.db", Retention(max_age=-1.0, interval=0.0))
        if store.load("c", "alice", 100) is None:
            store.commit("c", [logged("a", 1)])
        store.purge()
        assert store.count("c") == kept
        store.close()


def test_senders_that_are_forgotten_keep_nobody_out(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 65,536 had left the log, each unknown one was too old for ever."""
    monkeypatch.setattr(sqlite, "DEPARTED", 4)
    monkeypatch.setattr(log, "DEPARTED", 4)
    mine = log.Log()
    for n in range(10):
        mine.add(f"m{n}", LogEntry(n, f"sender {n}", 0), (), head=True)
        mine.evict()
        departed = {s: c for s, c in mine.departed.items() if s in ("", f"sender {n}")}
        store.commit("c", [logged(f"m{n}", n), fx.Evicted(((n, f"m{n}"),), None, departed)])
    departed = store.load("c", "alice", 100).departed
    for each in (mine.departed, departed):
        assert each == {"": 6, "sender 7": 7, "sender 8": 8, "sender 9": 9}
    assert mine.is_old((6, "x"), "sender 2")
    assert not mine.is_old((7, "x"), "sender 2")
    assert mine.is_old((8, "x"), "sender 8")


def test_what_a_snapshot_stands_for_goes(store: SqliteStore) -> None:
    store.commit("c", [logged(f"m{n}", n) for n in range(1, 5)])
    store.commit("c", [fx.JoinedAt(3)])
    assert [s.key[1] for s in store.page("c", None, None, 9, 999)[0]] == ["m4"]


def test_segments_are_those_of_one_content_around_a_place(store: SqliteStore) -> None:
    """A sender that says the same a thousand times is read as quickly."""
    segment = Segment(bytes(32), 0, 2, 9)
    said = [logged(f"m{n}", n, segment=replace(segment, index=n % 2)) for n in range(9)]
    other = logged("other", 4, segment=Segment(bytes(32), 0, 3, 9))
    store.commit("c", [*reversed(said), other])
    assert store.segments("c", (4, "m4"), "alice", segment) == [
        SegmentPlace((n, f"m{n}"), n % 2, 9 - n) for n in range(3, 7)
    ]
    assert store.segments("c", (4, "m4"), "bob", segment) == []


def test_no_part_of_a_snapshot_is_beyond_its_end(store: SqliteStore) -> None:
    store.commit("c", [fx.SnapshotKept(5, b"digest", b"state", 7)])
    assert store.snapshots("c")[0].arrival == 7
    assert store.snapshot_part("c", 5, b"digest", 3, 100) == (b"te", 5)
    for offset in (5, 2**64 - 1):
        assert store.snapshot_part("c", 5, b"digest", offset, 100) is None


def test_acknowledgements_come_back(store: SqliteStore) -> None:
    store.commit("c", [fx.AckStored("z", 0, 5), fx.AckStored("b", 3, 4), fx.AckStored("z", 0, 7)])
    saved = store.load("c", "alice", 100)
    assert saved.acks == {"z": (0, 7), "b": (3, 4)}


def test_altered_rows_are_never_handed_out_and_are_named(disk: SqliteStore) -> None:
    store, path = disk, disk.path
    changes: list[fx.Change] = [logged(f"m{n}", n, raw=b"raw %d" % n) for n in (1, 2)]
    store.commit("c", [*changes, logged("m3", 3, raw=b"raw 3"), fx.ClockSet(50)])
    store.set_reader("c", Cursor((2, "m2"), 2))
    store.close()
    altered(
        path,
        "UPDATE message SET raw = x'FFFF' WHERE id = 'm2'",
        "UPDATE message SET sender = CAST(x'FFFE' AS TEXT) WHERE id = 'm3'",
    )
    store = SqliteStore(path)
    assert store.get("c", ["m2", "m3"]) == []
    with pytest.raises(StoreError, match="message m2 is damaged; opened again, it is repaired"):
        store.following("c", Cursor((1, "m1"), 3), 2**63)
    saved = store.load("c", "alice", 100)
    assert {"m2", "m3"} <= {*saved.damaged}
    assert [s.key[1] for s in saved.log] == ["m1"]
    assert saved.clock == 50
    store.close()


@pytest.mark.parametrize("column", ["id", "raw", "sender", "lamport", "origin"])
def test_a_message_of_an_altered_row_is_not_delivered_twice(disk: SqliteStore, column: str) -> None:
    """A flipped bit of an id was."""
    store, path = disk, disk.path
    ids = [hash_of(b"raw %d" % n) for n in range(5)]
    store.commit("c", [logged(i, n, raw=b"raw %d" % n) for n, i in enumerate(ids)])
    store.set_reader("c", Cursor((3, ids[3]), 4))
    store.close()
    text = "'x' || id" if column == "id" else "9999"
    other = "CAST('x' AS BLOB)" if column in ("raw", "origin") else text
    altered(path, f"UPDATE message SET {column} = {other} WHERE n IN (3, 5)")
    store = SqliteStore(path)
    for _ in range(2):  # a second start knew nothing of it
        saved = store.load("c", "alice", 100)
        assert {ids[2], ids[4]} <= {*saved.damaged}
        assert saved.clock == 3, "no clock of an altered row is believed"
        store.close()
        store = SqliteStore(path)
    again = {n: logged(ids[n], n, raw=b"raw %d" % n) for n in (2, 4)}
    store.commit("c", [*again.values()])
    unread = store.following("c", Cursor((4, ids[4]), 5), 2**63)
    assert (unread.stored.key[1], unread.late) == (ids[4], True), "no stream may have had it"
    after = store.following("c", unread.cursor, 2**63)
    assert after.stored is None, "it is no late message"
    assert store.load("c", "alice", 100).damaged == []
    assert store.count("c") == 5
    store.close()


def test_messages_whose_rows_were_exchanged_both_come_back(disk: SqliteStore) -> None:
    """Each was given the number of one arrival, so that the second was passed over."""
    store, path = disk, disk.path
    ids = [hash_of(b"raw %d" % n) for n in range(3)]
    store.commit("c", [logged(i, n, raw=b"raw %d" % n) for n, i in enumerate(ids)])
    store.set_reader("c", Cursor((2, ids[2]), 3))
    store.close()
    other = "CAST(CASE n WHEN 1 THEN 'raw 1' ELSE 'raw 0' END AS BLOB)"
    altered(path, f"UPDATE message SET raw = {other} WHERE n < 3")
    with closing(SqliteStore(path)) as store:
        assert {*ids[:2]} == {*store.load("c", "alice", 100).damaged}
        store.commit("c", [logged(ids[n], n, raw=b"raw %d" % n) for n in (0, 1)])
        assert store.lacked("c", ids) == []


def test_a_store_is_copied_while_it_is_in_use(tmp_path: Path, disk: SqliteStore) -> None:
    disk.commit("c", [logged(f"m{n}", n) for n in range(1, 50)])
    disk.backup(tmp_path / "copy.db")
    disk.commit("c", [logged("m50", 50)])
    copy = SqliteStore(tmp_path / "copy.db")
    saved = copy.load("c", "alice", 100)
    assert len([*saved.log]) == 49
    for each in (copy, disk):
        each.close()


def test_a_time_of_day_that_is_wrong_once_removes_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """31 days ahead at one purge, all of the log was gone, and was refused later."""
    store.retention = Retention(max_age=30 * 86_400.0)
    store.commit("c", [logged("a", 1)])
    now = time.time()
    for ahead in (0, 31, 0, 0):
        monkeypatch.setattr(time, "time", lambda at=now + 86_400 * ahead: at)
        assert store.purge() == {}
    assert store.count("c") == 1
    for hours, left in ((0, 1), (0.1, 1), (0.4, 1), (1, 0)):
        monkeypatch.setattr(time, "time", lambda at=now + 3600 * (31 * 24 + hours): at)
        store.purge()
        assert store.count("c") == left, "two quick starts before the time of day was set"


def test_a_page_of_large_messages_reads_no_more_than_it_holds(tmp_path: Path) -> None:
    """An 11-byte request took 977 MB and two seconds."""
    store = SqliteStore(tmp_path / "s.db")
    store.load("c", "alice", 1000)
    for n in range(40):
        store.commit("c", [logged(f"m{n:03}", n, raw=bytes(900_000))])
    tracemalloc.start()
    page, more = store.page("c", None, None, 4000, 2**20)
    ids, _ = store.page("c", None, None, 4000, 2**20, ids_only=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(page), more, len(ids)) == (1, True, 40)
    assert peak < 5_000_000
    store.close()


def test_a_log_of_large_messages_is_loaded_a_row_at_a_time(tmp_path: Path) -> None:
    """1,000 of 900 kB took 900 MB."""
    store = SqliteStore(tmp_path / "s.db")
    store.load("c", "alice", 30)
    for n in range(40):
        store.commit("c", [logged(f"m{n:03}", n, raw=bytes(900_000))])
    tracemalloc.start()
    saved = store.load("c", "alice", 30)
    keys = [stored.key for stored in saved.log]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (keys, saved.floor) == ([(n, f"m{n:03}") for n in range(10, 40)], (9, "m009"))
    assert peak < 5_000_000
    store.close()


def test_damaged_rows_of_clock_and_reader_cost_nothing_but_reading_again(disk: SqliteStore) -> None:
    store, path = disk, disk.path
    store.commit("c", [logged("m1", 70), fx.ClockSet(70)])
    store.close()
    altered(path, "UPDATE note SET low = 9, high = 9 WHERE kind IN ('read', 'clock')")
    store = SqliteStore(path)
    saved = store.load("c", "alice", 100)
    assert saved.clock == 70
    assert store.reader("c") == Cursor()
    store.close()


SMALL_ROWS: list[fx.Change] = [
    fx.JoinedAt(0),
    fx.Evicted(tuple((n, f"m{n}") for n in range(5)), (4, "m4"), {"alice": 4}),
    *(fx.Tombstone(f"t{n}") for n in range(20)),
    *(fx.AckStored(f"sender {n}", 0, n) for n in range(20, 40)),
]


def assert_nothing_invented(after: Restored, before: Restored) -> None:
    """What was altered in the small tables isn't there."""

    assert after.acks.items() <= before.acks.items()
    assert set(after.tombstones) <= set(before.tombstones)
    assert after.departed.items() <= before.departed.items()
    assert after.since in (None, before.since)
    assert set(after.log) <= set(before.log)


def test_altered_rows_of_small_tables_are_not_believed(disk: SqliteStore) -> None:
    store, path = disk, disk.path
    store.commit("c", [logged(f"m{n}", n) for n in range(60)])
    store.commit("c", SMALL_ROWS)
    before = loaded(store)
    store.close()
    altered(
        path,
        "UPDATE note SET high = high + 9 WHERE name = 'sender 20'",
        "UPDATE note SET low = low + 1000 WHERE kind = 'departed'",
        "UPDATE note SET low = low + 1000 WHERE kind = 'joined'",
        "UPDATE note SET name = 'm50' WHERE name = 't3'",
        "UPDATE note SET channel = 'k' WHERE kind IN ('owner', 'clock', 'floor', 'read')",
    )
    store = SqliteStore(path)
    after = loaded(store)
    assert_nothing_invented(after, before)
    assert (len(after.acks), len(after.tombstones), after.departed) == (19, 19, {})
    assert (len(after.log), after.since, after.clock) == (len(before.log), None, 59)
    store.close()


def test_messages_are_counted_once(disk: SqliteStore) -> None:
    """Each comparison that a peer asked for counted all rows: 250 ms of 100,000."""
    disk.commit("c", [logged(f"m{n}", n) for n in range(1, 10)])
    assert disk.count("c") == 9
    statements: list[str] = []
    connection(disk).set_trace_callback(statements.append)
    disk.commit("c", [logged("m10", 10), logged("m9", 9)])
    disk.commit("c", [evicted((1, "m1"))])
    assert disk.count("c") == 9
    assert not [each for each in statements if "count(*)" in each]


def test_a_name_that_was_altered_is_no_channels() -> None:
    name = store_key("room", "x")
    assert channel_of(name, "room") == "x"
    for other in (name[1:], name.replace('"x"', "7"), "7", store_key("other", "x")):
        assert channel_of(other, "room") is None


@pytest.mark.parametrize("seed", range(12))
def test_any_flipped_byte_is_refused_or_leaves_only_what_was_written(
    disk: SqliteStore, seed: int
) -> None:
    store, path = disk, disk.path
    written = {f"m{n}": b"content %d" % n * 20 for n in range(60)}
    store.commit("c", [logged(i, n, raw=raw) for n, (i, raw) in enumerate(written.items())])
    store.commit("c", SMALL_ROWS)
    before = loaded(store)
    store.close()
    rng = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(3):
        data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    try:
        store = SqliteStore(path)
    except StoreError:
        return
    try:
        after = loaded(store)
        assert_nothing_invented(after, before)
        for stored in store.page("c", None, None, 100, 10**9)[0]:
            assert written[stored.key[1]] == stored.raw
            assert stored.origin == b"o"
        found = store.following("c", store.reader("c"), 2**63)
        while found.stored is not None:
            assert written[found.stored.key[1]] == found.stored.raw
            found = store.following("c", found.cursor, 2**63)
    except StoreError:
        return
    finally:
        store.close()


def test_an_error_that_names_damaged_text_is_named(tmp_path: Path) -> None:
    """SQLite quotes what it can't read in its message, which Python then can't decode."""
    path = tmp_path / "s.db"
    SqliteStore(path).close()
    data = path.read_bytes()
    assert data.count(b"CREATE TABLE note") == 1
    path.write_bytes(data.replace(b"CREATE TABLE note", b"CREATE \xd4ABLE note"))
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(path)


def test_what_was_given_up_is_bounded_by_channel(store: SqliteStore) -> None:
    for channel in ("c", "other"):
        store.load(channel, "alice", 100)
    store.commit("other", [fx.Tombstone("first")])
    store.commit("c", [fx.Tombstone(f"t{n}") for n in range(TOMBSTONES + 5)])
    saved, other = store.load("c", "alice", 100), store.load("other", "alice", 100)
    assert list(saved.tombstones) == [f"t{n}" for n in range(5, TOMBSTONES + 5)]
    assert list(other.tombstones) == ["first"]


def test_a_full_disk_refuses_a_commit_and_the_next_one_works(disk: SqliteStore) -> None:
    with sqlite_limit(disk, 40), pytest.raises(StoreFullError, match="the disk is full"):
        disk.commit("c", [logged("big", 1, raw=b"x" * 1_000_000)])
    assert disk.count("c") == 0
    disk.commit("c", [logged("big", 1, raw=b"x" * 1_000_000)])
    assert disk.count("c") == 1


def test_commits_may_wait_for_the_disk(tmp_path: Path) -> None:
    for durability, level in ((Durability.PROCESS, 1), (Durability.POWER, 2)):
        store = SqliteStore(tmp_path / f"{level}.db", durability=durability)
        assert pragma(store, "synchronous") == level
        store.close()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"this is no database, but long enough to be looked at" * 50)
    with pytest.raises(StoreError, match="damaged or no SQLite file"):
        SqliteStore(garbage)

    foreign = tmp_path / "foreign.db"
    altered(foreign, "CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="another application"):
        SqliteStore(foreign)

    newer = tmp_path / "newer.db"
    SqliteStore(newer).close()
    altered(newer, "PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="schema version 99, this software reads 8"):
        SqliteStore(newer)

    torn = tmp_path / "torn.db"
    store = SqliteStore(torn)
    store.load("c", "alice", 9)
    store.commit("c", [logged(f"m{i}", i, raw=os.urandom(500)) for i in range(200)])
    store.close()
    data = bytearray(torn.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    torn.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(torn)

    with pytest.raises(StoreError, match="unable to open"):
        SqliteStore(tmp_path / "no" / "such" / "directory.db")


@pytest.mark.slow
def test_a_file_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "s.db")
    script = (
        "import sys; from episub_router.sds import SqliteStore, StoreError\n"
        "try: SqliteStore(sys.argv[1])\n"
        "except StoreError as error: print(error)"
    )
    output = children.run(
        [sys.executable, "-c", script, str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "in use by another process" in output
    first.close()
    SqliteStore(tmp_path / "s.db").close()


@pytest.mark.slow
async def test_killed_at_any_point_a_commit_is_whole_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    said = 0
    for attempt in range(8):
        async with forked("store writer", [str(path)]) as writer:
            output = b""
            while b"\n" not in output:
                output += await writer.stdout.receive_some()
            await trio.sleep(0.003 * attempt)  # only moves the point of the kill
            writer.kill()
            output += b"".join([data async for data in writer.stdout])
            said = int(output.rpartition(b"\n")[0].split(b"\n")[-1])
        store = SqliteStore(path)
        saved = store.load("c", "alice", 10**6)
        assert saved.clock >= said
        assert len([*saved.log]) == 3 * saved.clock
        store.close()
    assert said > 8


POWERED = """
import os, signal, sys
from tests.sds.store_writer import logged
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.store.sqlite_file import Durability
stores = []  # one that is collected closes its file, which removes the log
for durability in Durability:
    store = SqliteStore(f"{sys.argv[1]}/{durability.name}.db", durability=durability)
    stores.append(store)
    store.load("c", "alice", 100)
    for n in range(20):
        store.commit("c", [logged(f"m{n}", n)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="files are found by /proc")
def test_a_power_failure_takes_no_commit_that_waited_for_the_disk(tmp_path: Path) -> None:
    """What wasn't synced is gone with the power, which a test has to cause by itself."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source, library = Path(__file__).with_name("power_failure.c"), tmp_path / "power_failure.so"
    children.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
    )
    children.run(
        [sys.executable, "-c", POWERED, str(tmp_path)],
        env=os.environ | {"LD_PRELOAD": str(library)},
    )
    left: dict[Durability, int] = {}
    for durability in Durability:
        for part in ("", "-wal"):
            path = tmp_path / f"{durability.name}.db{part}"
            synced = Path(f"{path}.synced")
            path.unlink()
            if synced.exists():
                synced.rename(path)
        store = SqliteStore(tmp_path / f"{durability.name}.db")
        saved = store.load("c", "alice", 100)
        left[durability] = 0 if saved is None else len([*saved.log])
        store.close()
    assert left[Durability.POWER] == 20
    assert left[Durability.PROCESS] < 20
