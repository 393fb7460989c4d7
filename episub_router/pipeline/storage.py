"""Files and directories of a lake, on this machine or wherever pyarrow's file systems reach: HDFS,
S3, Google's and Azure's storage, each with its own client's settings."""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from pyarrow import fs

_NEW = ".new"
_LEFT = re.compile(r"(.+)\.\d{20}-[0-9a-f]{32}\.(new|tmp)")


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

    Some file systems remove a file before another takes its place. So what is to be `PATH` is
    written as `PATH.STAMP.tmp`, and called `PATH.STAMP.new` once it is whole. While `PATH` is
    missing, the newest of these counts in its place, also where its writer was killed.
    """

    def _at(self, path: str) -> tuple[Any, str]:
        return at(path)

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted; nothing where there is none."""
        system, place = self._at(path)
        chosen = fs.FileSelector(place, allow_not_found=True)
        return sorted(entry.base_name for entry in system.get_file_info(chosen))

    def get(self, path: str) -> str | None:
        """The text of a file; None where there is none."""
        directory, _, name = path.rpartition("/")
        text = self._read(path)
        while text is None:
            left = [other for other in self.names(directory)
                    if other.startswith(f"{name}.") and other.endswith(_NEW)]  # fmt: skip
            # It may have been moved in between.
            text = self._read(path)
            if not left:
                break
            if text is None:
                text = self._read(f"{directory}/{left[-1]}")
        return text

    def _read(self, path: str) -> str | None:
        system, place = self._at(path)
        try:
            with system.open_input_stream(place, compression=None) as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def put(self, path: str, text: str) -> None:
        """Write a file as a whole: nobody reads half of it, or nothing in place of what was there
        before. Raises OSError where it can't be moved to its place."""
        system, place = self._at(path)
        system.create_dir(os.path.dirname(place))
        new = f"{place}.{time.time_ns():020d}-{uuid4().hex}"
        with system.open_output_stream(f"{new}.tmp", compression=None) as stream:
            stream.write(text.encode())
        system.move(f"{new}.tmp", f"{new}{_NEW}")
        system.move(f"{new}{_NEW}", place)

    def remove_left(self, path: str) -> list[str]:
        """Remove what killed writers left of files below a directory, but what counts in a file's
        place; what that was. Nobody may be writing."""
        system, place = self._at(path)
        chosen = fs.FileSelector(place, allow_not_found=True, recursive=True)
        there = {entry.path for entry in system.get_file_info(chosen)}
        found = filter(None, map(_LEFT.fullmatch, sorted(there)))
        left = [each[0] for each in found if each[2] == "tmp" or each[1] in there]
        for each in left:
            system.delete_file(each)
        return left

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
        system.create_dir(os.path.dirname(wanted))
        system.move(place, wanted)
        return True


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
    with tempfile.NamedTemporaryFile(suffix=Path(uri).suffix) as copy:
        fs.copy_files(place, copy.name, source_filesystem=system)
        yield copy.name


def escaped(name: str) -> str:
    """`name` as Hive's partitions have it in paths."""
    return re.sub(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]", lambda found: f"%{ord(found[0]):02X}", name)
