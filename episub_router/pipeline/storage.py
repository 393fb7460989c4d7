"""Files and directories of a lake, on this machine or wherever pyarrow's file systems reach: HDFS,
S3, Google's and Azure's storage, each with its own client's settings."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from pyarrow import fs

from episub_router.pipeline.params import SECOND

_NEW = ".new"

_TRIES = 5
"""Chosen: more writers that replace one file at the same moment are unlikely."""

_FORGOTTEN = 3_600 * SECOND
"""ns after which a file that was never moved to its place is of a writer that was killed."""

BLOCK = 1 << 20
"""Bytes copied at once."""


def is_local(path: str) -> bool:
    """Whether `path` is one of this machine's file system, and no URI of another."""
    return re.match(r"[a-z][a-z0-9+.-]*:", path) is None or path.startswith("file://")


def local_path(path: str) -> str:
    """`path`, which is local, as the functions of `os` take it."""
    return path.removeprefix("file://")


def at(uri: str) -> tuple[Any, str]:
    """The file system of `uri`, and the path in it. Raises OSError where it can't be reached."""
    if is_local(uri):
        return fs.LocalFileSystem(), os.path.abspath(local_path(uri))
    # Hadoop writes URIs of this machine with one slash, and all characters of paths as they are.
    quoted = quote(re.sub(r"^file:/+", "file:///", uri), safe=":/?@!$&'()*+,;=-._~")
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(quoted)
    except (ValueError, ImportError) as error:
        raise OSError(f"{uri}: {error}") from error
    return found


class Storage:
    """What a lake needs beside its tables. All paths are whole.

    Few file systems can put a file in the place of another one. So what is to be `PATH` is written
    as a whole as `PATH.STAMP.new`; `PATH` is removed, and that moved there. While `PATH` is
    missing, the newest `PATH.*.new` counts in its place, also where its writer was killed.
    """

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives ns since the epoch, by which files are stamped and forgotten."""
        self._clock = clock

    def _at(self, path: str) -> tuple[Any, str]:
        return at(path)

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted; nothing where there is none."""
        system, place = self._at(path)
        chosen = fs.FileSelector(place, allow_not_found=True)
        return sorted(entry.base_name for entry in system.get_file_info(chosen))

    def get(self, path: str) -> str | None:
        """The text of a file; None where there is none."""
        for _ in range(_TRIES):
            text = self._read(path)
            if text is not None:
                return text
            left = self._left(path)
            # Without any, it may have been moved in between.
            text = self._read(left[-1] if left else path)
            if text is not None or not left:
                return text
        return None

    def _read(self, path: str) -> str | None:
        system, place = self._at(path)
        try:
            with system.open_input_stream(place, compression=None) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def _left(self, path: str, ending: str = _NEW) -> list[str]:
        """Files that were to be moved to `path`, by when they were begun."""
        directory, _, name = path.rpartition("/")
        stamped = re.compile(rf"{re.escape(name)}\.\d{{20}}-[0-9a-f]{{32}}{re.escape(ending)}")
        return [
            f"{directory}/{other}" for other in self.names(directory) if stamped.fullmatch(other)
        ]

    def put(self, path: str, text: str) -> None:
        """Write a file as a whole: nobody reads half of it, or nothing in place of what was there
        before. Raises OSError where it can't be moved to its place."""
        self.make(path.rpartition("/")[0])
        new = f"{path}.{self._clock():020d}-{uuid4().hex}{_NEW}"
        system, begun = self._at(f"{new}.tmp")
        with system.open_output_stream(begun, compression=None) as stream:
            stream.write(text.encode())
        _, ready = self._at(new)
        _move(system, begun, ready)
        _, place = self._at(path)
        if is_local(path):
            os.replace(ready, place)
            return
        for _ in range(_TRIES):
            # Another writer's may be there again.
            _delete(system, place)
            try:
                _move(system, ready, place)
                break
            except OSError as error:
                refused = error
        else:
            raise refused
        # Another writer may still be about to move a younger one.
        oldest = f"{path}.{self._clock() - _FORGOTTEN:020d}"
        for left in (*self._left(path), *self._left(path, f"{_NEW}.tmp")):
            if left < oldest:
                _delete(system, self._at(left)[1])

    def make(self, path: str) -> None:
        """Make a directory, with those above it."""
        system, place = self._at(path)
        system.create_dir(place, recursive=True)

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, if it is there."""
        system, place = self._at(path)
        with suppress(FileNotFoundError):
            system.delete_dir(place)

    def rename(self, path: str, to: str) -> bool:
        """Move a directory, if it is there, to where nothing is; whether it was there. Raises
        OSError where something is, or it can't be moved."""
        system, place = self._at(path)
        if system.get_file_info(place).type == fs.FileType.NotFound:
            return False
        _, wanted = self._at(to)
        if system.get_file_info(wanted).type != fs.FileType.NotFound:
            # Some file systems would move it into that directory.
            raise FileExistsError(f"{path} can't be moved to {to}, which is there")
        system.create_dir(os.path.dirname(wanted), recursive=True)
        _move(system, place, wanted)
        return True


def replace(storage: Storage, new: str, to: str, aside: str) -> None:
    """Put the directory `new`, or nothing if there is none, in the place of what is at `to`: that
    is at `aside` in between, and then beside `new`. Interrupted, the old or the new is at `to`, or
    the old is at `aside`; each is whole."""
    if storage.names(to):
        # What an interrupted one has left is older.
        storage.rename(aside, f"{new}.older")
        storage.rename(to, aside)
    storage.rename(new, to)
    storage.rename(aside, f"{new}.old")


def put_back(storage: Storage, aside: str, root: str) -> None:
    """Move LAYER/TABLE/PART below `aside` to `root`, where that isn't there."""
    for layer in storage.names(aside):
        for table in storage.names(f"{aside}/{layer}"):
            there = storage.names(f"{root}/{layer}/{table}")
            for part in storage.names(f"{aside}/{layer}/{table}"):
                if part not in there:
                    place = f"{layer}/{table}/{part}"
                    storage.rename(f"{aside}/{place}", f"{root}/{place}")


def move_over(system: Any, path: str, to: str) -> None:
    """Move a file to where another writer may have put one. Raises OSError."""
    _delete(system, to)
    _move(system, path, to)


def _delete(system: Any, place: str) -> None:
    with suppress(FileNotFoundError):
        system.delete_file(place)


def _move(system: Any, path: str, to: str) -> None:
    try:
        system.move(path, to)
    except OSError as error:
        raise OSError(f"{path} can't be moved to {to}: {error}") from error


def files_at(uri: str) -> Iterator[tuple[str, int, int]]:
    """The files that `uri`, a file or directory elsewhere, has, as (URI, bytes, ns since 1970 of
    its last change). Raises OSError."""
    system, place = at(uri)
    found = system.get_file_info(place)
    if found.type == fs.FileType.File:
        yield uri, found.size, found.mtime_ns or 0
        return
    for entry in system.get_file_info(fs.FileSelector(place, allow_not_found=True, recursive=True)):
        if entry.type == fs.FileType.File:
            name = f"{uri.rstrip('/')}/{os.path.relpath(entry.path, place)}"
            yield name, entry.size, entry.mtime_ns or 0


@contextmanager
def fetched(uri: str) -> Iterator[str]:
    """The path of a local copy of the file at `uri`, which is there while in this context; of a
    local file the file itself. Raises OSError."""
    if is_local(uri):
        yield uri
        return
    system, place = at(uri)
    # The name says whether it is gzipped, too.
    with (
        tempfile.NamedTemporaryFile(suffix=Path(uri).suffix) as copy,
        system.open_input_stream(place, compression=None) as source,
    ):
        shutil.copyfileobj(source, copy, BLOCK)
        copy.flush()
        yield copy.name


def escaped(name: str) -> str:
    """`name` as Hive's partitions have it in paths."""
    return re.sub(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]", lambda found: f"%{ord(found[0]):02X}", name)
