"""A trace file as a stream of events, whatever its format and its damage.

    with TraceFile("node.pb") as trace:
        for offset, event in trace:
            if isinstance(event, Unreadable):
                print(f"{event.size} bytes at {offset}: {event.reason}")
            else:
                print(kind_of(event), event.timestamp)

No Spark, no libp2p: protobuf and the standard library are all that it needs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal

from episub_router.trace.kinds import kind_of
from episub_router.trace.reading.frames import Record, Unreadable, read_frames
from episub_router.trace.reading.json_lines import read_lines
from episub_router.trace.reading.pieces import Hole, gunzipped, is_gzip, plain

__all__ = ["Record", "TraceFile", "Unreadable", "kind_of"]


class TraceFile:
    """The records of one file, to be read once; to be used as a context manager.

    Whether it is PB or JSON, gzipped or not, follows from its content. Yields (offset, event)
    and (offset, Unreadable) in the order of the file; offsets are in the decompressed bytes.
    Memory is bounded whatever the file holds. Raises OSError where the file can't be opened;
    what can't be read of it is `Unreadable`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file = self.path.open("rb")
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            """Bytes of the file, compressed if it is."""
            start = self._file.read(3)
            self._file.seek(0)
            self.gzipped = is_gzip(start, self.path.name)
            pieces = _readable(gunzipped(self._file) if self.gzipped else plain(self._file))
            first = next(pieces, b"")
            self.format: Literal["pb", "json"] = "json" if _is_json(first) else "pb"
        except BaseException:
            self._file.close()
            raise
        self._pieces: Iterable[bytes | Hole] = itertools.chain([first], pieces)

    @property
    def position(self) -> int:
        """How many bytes of the file have been read; for showing progress."""
        return self._file.tell()

    @property
    def pieces(self) -> Iterable[bytes | Hole]:
        """The decompressed bytes, to be read in place of the events."""
        return self._pieces

    def __iter__(self) -> Iterator[Record]:
        read = read_lines if self.format == "json" else read_frames
        return read(self._pieces)

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def _readable(pieces: Iterator[bytes | Hole]) -> Iterator[bytes | Hole]:
    """`pieces` up to what the disk doesn't give out."""
    try:
        yield from pieces
    except OSError as error:
        yield Hole(f"the file can't be read on: {error.strerror}")


def _is_json(start: bytes | Hole) -> bool:
    """Whether lines of JSON look so; also if some of them are damaged."""
    if isinstance(start, Hole):
        return False
    lines = start.split(b"\n", 20)
    likely = sum(line.startswith(b"{") and b'":' in line for line in lines)
    return likely > 0 and 2 * likely >= sum(1 for line in lines if line)
