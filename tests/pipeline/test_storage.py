"""A lake's small files and directories at URIs: whole, whenever a writer is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")


class Killed(Exception):
    """The writer isn't there any more."""


class InSteps:
    """A file system of pyarrow's that removes a file before another takes its place, with `before`
    called for each step."""

    def __init__(self, actual: Any, before: Callable[[], None]) -> None:
        self._actual, self._before = actual, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actual, name)

    def move(self, path: str, to: str) -> None:
        there = self._actual.get_file_info(to).type
        if there != type(there).NotFound:
            self._before()
            self._actual.delete_file(to)
        self._before()
        self._actual.move(path, to)


def storage(before: Callable[[], None] = lambda: None) -> Any:
    from episub_router.pipeline.storage import Storage

    class StorageInSteps(Storage):
        def _at(self, path: str) -> tuple[Any, str]:
            system, found = super()._at(path)
            return InSteps(system, before), found

    return StorageInSteps()


def test_a_file_is_the_old_or_the_new_one_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    path = f"file:{tmp_path}/there/entries.json"
    step, is_done, seen = 0, False, []
    while not is_done:
        left = step

        def before() -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        storage().put(path, "old")
        assert storage().get(path) == "old"
        try:
            storage(before).put(path, "new")
            is_done = True
        except Killed:
            pass
        seen.append(storage().get(path))
        step += 1
    # Killed before it is whole, before the removal, between that and the move, and not at all.
    assert seen == ["old", "old", "new", "new"]
    storage().put(path, "last")
    assert storage().get(path) == "last"


def test_what_killed_writers_left_is_removed_but_what_counts(tmp_path: Path) -> None:
    root = f"file:{tmp_path}"
    moves = 0

    def before() -> None:
        nonlocal moves
        if not moves:
            raise Killed
        moves -= 1

    for name, done in (("whole", 0), ("whole", 1), ("new", 1)):
        storage().put(f"{root}/there/{name}", "old")
        moves = 2 if name == "new" else done
        with pytest.raises(Killed):
            storage(before).put(f"{root}/there/{name}", "newer")
    endings = [path.suffix for path in sorted((tmp_path / "there").iterdir())]
    assert endings == [".new", "", ".tmp", ".new"]
    assert len(storage().remove_left(root)) == 2
    assert storage().get(f"{root}/there/whole") == "old"
    assert storage().get(f"{root}/there/new") == "newer"
    assert len([*(tmp_path / "there").iterdir()]) == 2


def test_of_two_writers_at_once_one_is_read(tmp_path: Path) -> None:
    path = f"file:{tmp_path}/there/entries.json"
    storage().put(path, "old")
    for moment in range(2):
        left = moment

        def before() -> None:
            nonlocal left
            if left == 0:
                storage().put(path, "theirs")
            left -= 1

        storage(before).put(path, "ours")
        assert storage().get(path) == "ours"


def test_a_reader_that_meets_a_writer_reads_what_is_written(tmp_path: Path) -> None:
    """Of the new one, too, which is moved when it looks there."""
    from episub_router.pipeline.storage import Storage

    path = f"file:{tmp_path}/there/entries.json"
    place = tmp_path / "there" / "entries.json"
    times = 0

    class Meeting(Storage):
        def _read(self, path: str) -> str | None:
            nonlocal times
            times += 1
            if times == 1:
                place.rename(f"{place}.1.new")
                return None
            if times == 3:
                Path(f"{place}.1.new").rename(place)
            return super()._read(path)

    storage().put(path, "new")
    Path(f"{place}.0.new").write_text("of one that was killed")
    assert Meeting().get(path) == "new"


def test_a_move_that_the_file_system_refuses_is_an_error(tmp_path: Path) -> None:
    root = f"file:{tmp_path}"

    def refuse() -> None:
        raise OSError("not here")

    storage().put(f"{root}/here/file", "old")
    with pytest.raises(OSError, match="not here"):
        storage(refuse).put(f"{root}/here/file", "new")
    assert storage().get(f"{root}/here/file") == "old"
    with pytest.raises(OSError, match="not here"):
        storage(refuse).rename(f"{root}/here", f"{root}/below/it")
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
