"""A history survives its files, which are traces like any other."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from episub_router.trace.kinds import kind_of
from interop.testbed.checker.check import check
from interop.testbed.faults import Fault, FaultKind
from interop.testbed.history import files
from interop.testbed.history.records import Delivered, Event, Lived, Neighbors, Parted, Refused
from interop.testbed.scenario import Promises
from tests.testbed.histories import HOSTS, add, drop, history, is_delivery
from tests.trace.samples import bad, good, records_of

KILL = Fault(kind=FaultKind.KILL, at=30.0, lasts=5.0, hosts=(3,))


def keys(events: list[Event]) -> list[str]:
    """Events but for the last digits of their times."""
    return sorted(str(asdict(e) | {"time": round(e.time, 3)}) + type(e).__name__ for e in events)


def test_written_and_read(tmp_path: Path) -> None:
    made = history(KILL, kind="sds")
    drop(made, lambda event: event.host == 3 and event.time > 30)
    add(made, Lived(30.0, 3, 0, "kill"), Neighbors(30.1, 3, 0, frozenset()))
    add(made, Lived(36.0, 3, 1, "ready"))
    add(made, Neighbors(37.0, 3, 1, frozenset({0, 2})), Delivered(38.0, 3, 1, "m1-2", ("x",)))
    add(made, Refused(39.0, 1, 0, "m1-9", "too large"), Parted(39.0, 1, 0, 3, "failed"))
    drop(made, is_delivery("m1-4", 2))
    files.write(made, tmp_path)
    read = files.read(tmp_path)
    assert keys(read.events) == keys(made.events)
    assert (read.asked, read.faults, read.usage) == (made.asked, made.faults, made.usage)
    assert (read.logs, read.duration) == (made.logs, made.duration)
    promises = Promises(deadline=5.0)
    assert check(made, promises)
    assert list(map(str, check(read, promises))) == list(map(str, check(made, promises)))


def test_the_files_are_traces(tmp_path: Path) -> None:
    files.write(history(), tmp_path)
    paths = [tmp_path / f"host-{host}.history.pb" for host in range(HOSTS)]
    records = [record for path in paths for record in records_of(path)]
    assert not bad(records)
    kinds = [kind_of(event) for event in good(records)]
    assert kinds.count("publishMessage") == HOSTS * 10
    assert kinds.count("deliverMessage") == HOSTS * 10 * (HOSTS - 1)


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    files.write(history(), tmp_path)
    path = tmp_path / "host-1.history.pb"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="is damaged"):
        files.read(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="is not of a run"):
        files.read(tmp_path)
