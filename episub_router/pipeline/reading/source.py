"""The data source `libp2ptrace`: `spark.read.format("libp2ptrace").load("traces/*.pb")`.

A partition has one file, or several small ones; a file is never split, so nodes should rotate
theirs (64 MiB is good). Files must be at the same path on all workers.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from episub_router.pipeline.lake import RECORD
from episub_router.pipeline.reading.files import read_file
from episub_router.pipeline.storage import local_path

FORMAT = "libp2ptrace"

TASK_BYTES = 32 << 20
"""Small files are taken together until they have this many bytes."""

_File = TypeVar("_File")

_BESIDE_TRACES = ("summary.json", ".svg", ".png")


class TraceDataSource(DataSource):
    """Trace files as rows of `lake.RECORD`.

    Options: `path`, a file, a pattern, or a directory with all that is below it; and `run`, the
    name of the run, by default what each file says.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return RECORD

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        if "path" not in self.options:
            raise ValueError(f"{FORMAT} needs a path")
        return _Reader(find(self.options["path"]), self.options.get("run"))


class _Reader(DataSourceReader):
    def __init__(self, paths: Sequence[str], run: str | None) -> None:
        self._paths = paths
        self._run = run

    def partitions(self) -> Sequence[InputPartition]:
        files = packed(self._paths, os.path.getsize, TASK_BYTES)
        return [InputPartition(some) for some in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for path in partition.value:
            yield from read_file(path, path, self._run)


def packed(
    files: Iterable[_File], size_of: Callable[[_File], int], most: int
) -> Iterator[list[_File]]:
    """`files` in lists of `most` bytes, or of one file that is larger."""
    together: list[_File] = []
    bytes_of_all = 0
    for file in files:
        size = size_of(file)
        if together and bytes_of_all + size > most:
            yield together
            together, bytes_of_all = [], 0
        together.append(file)
        bytes_of_all += size
    if together:
        yield together


def find(path: str) -> list[str]:
    """The files that `path` stands for, sorted: itself, those in a directory, or those that match
    a pattern. Hidden ones, and those being written (`_name`, `name.tmp`), are left out, and in a
    directory what `episub sim run` puts beside its traces.

    Raises FileNotFoundError where there is none.
    """
    path = local_path(path)
    if os.path.isfile(path):
        return [os.path.abspath(path)]
    if os.path.isdir(path):
        found = [
            os.path.join(top, name)
            for top, _, names in os.walk(path)
            for name in names
            if not name.endswith(_BESIDE_TRACES)
        ]
    else:
        found = [match for match in glob.glob(path, recursive=True) if os.path.isfile(match)]
    chosen = sorted(os.path.abspath(name) for name in found if is_finished(name))
    if not chosen:
        raise FileNotFoundError(f"no trace files at {path}")
    return chosen


def is_finished(path: str) -> bool:
    """Whether the file at `path` is neither hidden nor being written."""
    name = os.path.basename(path)
    return not name.startswith((".", "_")) and not name.endswith(".tmp")
