"""Small files and directories of a lake, on this machine or wherever Hadoop has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession


class Storage(Protocol):
    """What a lake needs beside its tables. All paths are whole."""

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted; nothing where there is none."""

    def get(self, path: str) -> str | None:
        """The text of a file; None where there is none."""

    def put(self, path: str, text: str) -> None:
        """Write a file as a whole: nobody reads half of it."""

    def make(self, path: str) -> None:
        """Make a directory, with those above it."""

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, if it is there."""

    def rename(self, path: str, to: str) -> bool:
        """Move a directory, if it is there, to where nothing is; whether it was there."""


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
    """At any URI that Hadoop can write to."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def _file(self, path: str) -> tuple[Any, Any]:
        found = self._jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(self._conf), found

    def names(self, path: str) -> list[str]:
        system, found = self._file(path)
        if not system.exists(found):
            return []
        return sorted(entry.getPath().getName() for entry in system.listStatus(found))

    def get(self, path: str) -> str | None:
        system, found = self._file(path)
        if not system.exists(found):
            return None
        stream = system.open(found)
        size = system.getFileStatus(found).getLen()
        text = bytes(stream.readNBytes(size)).decode()
        stream.close()
        return text

    def put(self, path: str, text: str) -> None:
        system, begun = self._file(f"{path}.tmp")
        stream = system.create(begun, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        _, found = self._file(path)
        system.delete(found, False)
        system.rename(begun, found)

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
        system.mkdirs(wanted.getParent())
        return bool(system.rename(found, wanted))
