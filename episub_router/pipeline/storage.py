"""Small files and directories of a lake, on this machine or wherever Hadoop has them."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from episub_router.pipeline.params import SECOND


class Storage(Protocol):
    """What a lake needs beside its tables. All paths are whole."""

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted; nothing where there is none."""

    def get(self, path: str) -> str | None:
        """The text of a file; None where there is none."""

    def put(self, path: str, text: str) -> None:
        """Write a file as a whole: nobody reads half of it, or nothing in place of what was there
        before. Raises OSError where it can't be moved to its place."""

    def make(self, path: str) -> None:
        """Make a directory, with those above it."""

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, if it is there."""

    def rename(self, path: str, to: str) -> bool:
        """Move a directory, if it is there, to where nothing is; whether it was there. Raises
        OSError where something is, or it can't be moved."""


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


class LocalStorage:
    """On this machine."""

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def get(self, path: str) -> str | None:
        try:
            return Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def put(self, path: str, text: str) -> None:
        self.make(os.path.dirname(path))
        begun = f"{path}.{os.getpid()}.tmp"
        Path(begun).write_text(text, encoding="utf-8")
        os.replace(begun, path)

    def make(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def rename(self, path: str, to: str) -> bool:
        if not os.path.isdir(path):
            return False
        self.make(os.path.dirname(to))
        os.rename(path, to)
        return True


class HadoopStorage:
    """At any URI that Hadoop can write to.

    Few of its file systems can put a file in the place of another one. So what is to be `PATH` is
    written as a whole and moved to `PATH.STAMP.new`; `PATH` is removed, and that moved there.
    While `PATH` is missing, the newest `PATH.*.new` counts in its place, also where its writer was
    killed; the next one replaces it.
    """

    def __init__(self, spark: SparkSession, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives ns since the epoch, by which files are stamped and forgotten."""
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self._clock = clock

    def _file(self, path: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(self._conf), found

    def names(self, path: str) -> list[str]:
        system, found = self._file(path)
        if not system.exists(found):
            return []
        return sorted(entry.getPath().getName() for entry in system.listStatus(found))

    def get(self, path: str) -> str | None:
        text = self._read(path)
        for _ in range(_TRIES):
            if text is not None:
                break
            new = self._left(path, _NEW)
            # Without any, it may have been moved in between.
            text = self._read(new[-1] if new else path)
            if not new:
                break
        return text

    def _read(self, path: str) -> str | None:
        system, found = self._file(path)
        if not system.exists(found):
            return None
        try:
            size = system.getFileStatus(found).getLen()
            stream = system.open(found)
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return bytes(stream.readNBytes(size)).decode()
        finally:
            stream.close()

    def _left(self, path: str, ending: str) -> list[str]:
        """Files that were to be moved to `path`, by when they were begun."""
        directory, _, name = path.rpartition("/")
        stamped = re.compile(rf"{re.escape(name)}\.\d{{20}}-[0-9a-f]{{32}}{re.escape(ending)}")
        there = self.names(directory)
        return [f"{directory}/{other}" for other in there if stamped.fullmatch(other)]

    def put(self, path: str, text: str) -> None:
        stamp = f"{self._clock():020d}-{uuid4().hex}"
        system, begun = self._file(f"{path}.{stamp}{_BEGUN}")
        stream = system.create(begun, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        _, new = self._file(f"{path}.{stamp}{_NEW}")
        if not system.rename(begun, new):
            raise OSError(f"{begun} can't be moved to {new}")
        _, found = self._file(path)
        for _ in range(_TRIES):
            # Another writer's may be there again.
            system.delete(found, False)
            if system.rename(new, found):
                break
        else:
            raise OSError(f"{new} can't be moved to {found}")
        # Another writer may still be about to move a younger one.
        oldest = f"{path}.{self._clock() - _FORGOTTEN:020d}"
        for left in (*self._left(path, _NEW), *self._left(path, _BEGUN)):
            if left < oldest:
                system.delete(self._file(left)[1], False)

    def make(self, path: str) -> None:
        system, found = self._file(path)
        system.mkdirs(found)

    def remove(self, path: str) -> None:
        system, found = self._file(path)
        system.delete(found, True)

    def rename(self, path: str, to: str) -> bool:
        system, found = self._file(path)
        if not system.exists(found):
            return False
        _, wanted = self._file(to)
        if system.exists(wanted):
            # Some file systems would move it into that directory.
            raise FileExistsError(f"{path} can't be moved to {to}, which is there")
        system.mkdirs(wanted.getParent())
        if not system.rename(found, wanted):
            raise OSError(f"{path} can't be moved to {to}")
        return True


_BEGUN, _NEW = ".tmp", ".new"

_TRIES = 5
"""Ours: more writers that replace one file at the same moment are unlikely."""

_FORGOTTEN = 3_600 * SECOND
"""ns after which a file that was never moved to its place is of a writer that was killed. Ours."""


def _is_missing(error: Py4JJavaError) -> bool:
    name = error.java_exception.getClass().getName()
    return bool(name == "java.io.FileNotFoundException")
