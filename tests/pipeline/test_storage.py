"""A lake's small files and directories at Hadoop URIs: whole, whenever a writer is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TWO_HOURS = 7_200 * 10**9
"""ns"""


class Killed(Exception):
    """The writer isn't there any more."""


class Watched:
    """A file system of Hadoop's, with `before` called for each rename and delete. As most of them
    do, and Hadoop's own for local files doesn't, it refuses to move a file to one that is there."""

    def __init__(self, actual: Any, before: Callable[[str], bool]) -> None:
        self._actual, self._before = actual, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actual, name)

    def rename(self, path: Any, to: Any) -> bool:
        goes_on = self._before("rename")
        return goes_on and not self._actual.exists(to) and self._actual.rename(path, to)

    def delete(self, path: Any, recursive: bool) -> bool:
        return self._before("delete") and self._actual.delete(path, recursive)


def storage(
    spark: SparkSession,
    before: Callable[[str], bool] = lambda name: True,
    clock: Callable[[], int] = time.time_ns,
) -> Any:
    from episub_router.pipeline.storage import HadoopStorage

    class WatchedStorage(HadoopStorage):
        def _file(self, path: str) -> tuple[Any, Any]:
            system, found = super()._file(path)
            return Watched(system, before), found

    return WatchedStorage(spark, clock)


@pytest.mark.parametrize("root", ["file:", "file://"])
def test_a_file_is_the_old_or_the_new_one_whenever_its_writer_is_killed(
    spark: SparkSession, tmp_path: Path, root: str
) -> None:
    path = f"{root}{tmp_path}/there/entries.json"
    step, is_done, seen = 0, False, []
    while not is_done:
        left = step

        def before(name: str) -> bool:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return True

        storage(spark).put(path, "old")
        assert storage(spark).get(path) == "old"
        try:
            storage(spark, before).put(path, "new")
            is_done = True
        except Killed:
            pass
        seen.append(storage(spark).get(path))
        step += 1
    # Killed before the first move, before the removal, between the two, and not at all.
    assert seen == ["old", "old", "new", "new"]
    storage(spark).put(path, "last")
    assert storage(spark).get(path) == "last"


def test_of_two_writers_at_once_one_is_read(spark: SparkSession, tmp_path: Path) -> None:
    path = f"file:{tmp_path}/there/entries.json"
    storage(spark).put(path, "old")
    for moment in range(3):
        left = moment

        def before(name: str) -> bool:
            nonlocal left
            if left == 0:
                storage(spark).put(path, "theirs")
            left -= 1
            return True

        storage(spark, before).put(path, "ours")
        assert storage(spark).get(path) == "ours"


def test_what_a_killed_writer_left_is_removed_in_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "there"
    path = f"file:{place}/entries.json"
    moves = 1

    def before(name: str) -> bool:
        nonlocal moves
        if not moves:
            raise Killed
        moves -= 1
        return True

    with pytest.raises(Killed):
        storage(spark, before).put(path, "killed")
    storage(spark).put(path, "new")
    left = [file.name for file in place.iterdir() if file.name.endswith(".new")]
    assert len(left) == 1
    assert storage(spark).get(path) == "new"
    storage(spark, clock=lambda: time.time_ns() + TWO_HOURS).put(path, "newer")
    assert [name for name in storage(spark).names(f"file:{place}") if name[0] != "."] == [
        "entries.json"
    ]


def test_a_move_that_the_file_system_refuses_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = f"file:{tmp_path}"
    refusing = storage(spark, lambda name: name != "rename")
    storage(spark).put(f"{root}/here/file", "old")
    with pytest.raises(OSError, match="can't be moved"):
        refusing.put(f"{root}/here/file", "new")
    assert storage(spark).get(f"{root}/here/file") == "old"
    with pytest.raises(OSError, match="can't be moved"):
        refusing.rename(f"{root}/here", f"{root}/below/it")
    assert storage(spark).names(f"{root}/below/it") == []


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_directories_are_moved_to_where_nothing_is(
    spark: SparkSession, tmp_path: Path, scheme: str
) -> None:
    from episub_router.pipeline.storage import LocalStorage

    kept = storage(spark) if scheme else LocalStorage()
    root = f"{scheme}{tmp_path}"
    kept.put(f"{root}/new/file", "one")
    kept.put(f"{root}/there/other", "two")
    with pytest.raises(OSError, match=r"there|not empty"):
        kept.rename(f"{root}/new", f"{root}/there")
    assert [name for name in kept.names(f"{root}/there") if name[0] != "."] == ["other"]
    assert not kept.rename(f"{root}/missing", f"{root}/below/it")
    assert kept.rename(f"{root}/new", f"{root}/below/it")
    assert [name for name in kept.names(f"{root}/below/it") if name[0] != "."] == ["file"]
