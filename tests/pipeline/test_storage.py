"""A lake's small files and directories at URIs: whole, whenever a writer is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

TWO_HOURS = 7_200 * 10**9
"""ns"""


class Killed(Exception):
    """The writer isn't there any more."""


class Watched:
    """A file system of pyarrow's, with `before` called for each move to where something can be and
    each delete. As most of them do, it refuses to move a file to one that is there."""

    def __init__(self, actual: Any, before: Callable[[str], bool]) -> None:
        self._actual, self._before = actual, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actual, name)

    def move(self, path: str, to: str) -> None:
        there = self._actual.get_file_info(to).type
        if not self._before("move") or there != type(there).NotFound:
            raise OSError(f"{to} is there")
        self._actual.move(path, to)

    def delete_file(self, path: str) -> None:
        if self._before("delete"):
            self._actual.delete_file(path)


def storage(
    before: Callable[[str], bool] = lambda name: True,
    clock: Callable[[], int] = time.time_ns,
) -> Any:
    from episub_router.pipeline.storage import Storage

    class WatchedStorage(Storage):
        def _at(self, path: str) -> tuple[Any, str]:
            system, found = super()._at(path)
            return Watched(system, before), found

    return WatchedStorage(clock)


def test_a_file_is_the_old_or_the_new_one_whenever_its_writer_is_killed(
    tmp_path: Path,
) -> None:
    path = f"file:{tmp_path}/there/entries.json"
    step, is_done, seen = 0, False, []
    while not is_done:
        left = step

        def before(name: str) -> bool:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return True

        storage().put(path, "old")
        assert storage().get(path) == "old"
        try:
            storage(before).put(path, "new")
            is_done = True
        except Killed:
            pass
        seen.append(storage().get(path))
        step += 1
    # Killed before the first move, before the removal, between the two, and not at all.
    assert seen == ["old", "old", "new", "new"]
    storage().put(path, "last")
    assert storage().get(path) == "last"


def test_of_two_writers_at_once_one_is_read(tmp_path: Path) -> None:
    path = f"file:{tmp_path}/there/entries.json"
    storage().put(path, "old")
    for moment in range(3):
        left = moment

        def before(name: str) -> bool:
            nonlocal left
            if left == 0:
                storage().put(path, "theirs")
            left -= 1
            return True

        storage(before).put(path, "ours")
        assert storage().get(path) == "ours"


def test_what_a_killed_writer_left_is_removed_in_the_end(tmp_path: Path) -> None:
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
        storage(before).put(path, "killed")
    storage().put(path, "new")
    left = [file.name for file in place.iterdir() if file.name.endswith(".new")]
    assert len(left) == 1
    assert storage().get(path) == "new"
    storage(clock=lambda: time.time_ns() + TWO_HOURS).put(path, "newer")
    assert [name for name in storage().names(f"file:{place}") if name[0] != "."] == ["entries.json"]


def test_a_move_that_the_file_system_refuses_is_an_error(tmp_path: Path) -> None:
    root = f"file:{tmp_path}"
    refusing = storage(lambda name: name != "move")
    storage().put(f"{root}/here/file", "old")
    with pytest.raises(OSError, match="can't be moved"):
        refusing.put(f"{root}/here/file", "new")
    assert storage().get(f"{root}/here/file") == "old"
    with pytest.raises(OSError, match="can't be moved"):
        refusing.rename(f"{root}/here", f"{root}/below/it")
    assert storage().names(f"{root}/below/it") == []


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_directories_are_moved_to_where_nothing_is(tmp_path: Path, scheme: str) -> None:
    kept = storage()
    root = f"{scheme}{tmp_path}"
    kept.put(f"{root}/new/file", "one")
    kept.put(f"{root}/there/other", "two")
    with pytest.raises(OSError, match=r"there|not empty"):
        kept.rename(f"{root}/new", f"{root}/there")
    assert [name for name in kept.names(f"{root}/there") if name[0] != "."] == ["other"]
    assert not kept.rename(f"{root}/missing", f"{root}/below/it")
    assert kept.rename(f"{root}/new", f"{root}/below/it")
    assert [name for name in kept.names(f"{root}/below/it") if name[0] != "."] == ["file"]
