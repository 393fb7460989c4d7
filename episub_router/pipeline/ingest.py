"""From trace files to bronze: each file once, all of it, in batches that can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episub_router.pipeline.lake import Entry, Lake, LakeError
from episub_router.pipeline.reading.files import read_file
from episub_router.pipeline.reading.source import FORMAT, find
from episub_router.pipeline.schemas import RECORD

FINISHED = "{*[!p],*[!m]p,*[!t]mp,*[!.]tmp,p,mp,tmp}"
"""Names that don't end in `.tmp`, as a pattern of Hadoop's, which can't say `not`. Those with a
leading dot or underscore Spark passes over by itself."""

BATCH_BYTES = 4 << 30
"""Input files that are committed together: what is repeated at most after an interruption."""


@dataclass(frozen=True, slots=True)
class TraceFileInfo:
    """An input file, and the SHA-256 of its content."""

    path: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Ingested:
    """What an ingest did: `added` has the new files, `known` those that were there already."""

    added: tuple[Entry, ...]
    known: tuple[Entry, ...]

    @property
    def events(self) -> int:
        return sum(entry.events for entry in self.added)

    @property
    def quarantined(self) -> int:
        return sum(entry.quarantined for entry in self.added)


def ingest(
    spark: SparkSession, lake: Lake, inputs: Sequence[str], run: str | None = None
) -> Ingested:
    """Put the files at `inputs` (files, directories, patterns, or Hadoop URIs) into `lake`.

    A file whose content is there already, under this `run` or any if none is named, adds nothing.
    Raises LakeError for a file that was ingested before and has changed since, FileNotFoundError
    where there is no file.
    """
    files = [file for path in inputs for file in _look(spark, path)]
    entries = lake.manifest()
    by_digest = {entry.digest: entry for entry in entries if run in (None, entry.run)}
    by_name = {entry.file: entry for entry in entries if run in (None, entry.run)}
    fresh: dict[str, TraceFileInfo] = {}
    known: list[Entry] = []
    for file in files:
        if file.digest in by_digest:
            known.append(by_digest[file.digest])
        elif file.path in by_name:
            raise LakeError(
                f"{file.path} has changed since it was ingested into run {by_name[file.path].run}; "
                "rotate traces instead of appending, or ingest it into another run"
            )
        else:
            fresh.setdefault(file.digest, file)
    added: list[Entry] = []
    for batch in _batches(list(fresh.values())):
        records = read_records(spark, [file.path for file in batch], run)
        name = _batch_name(batch, run)
        added += lake.add(name, records, {file.path: file.digest for file in batch})
    return Ingested(tuple(added), tuple(known))


def read_records(spark: SparkSession, paths: Sequence[str], run: str | None) -> DataFrame:
    """The records of `paths`, which are all local or all at URIs."""
    if _is_local(paths[0]):
        reader = spark.read.format(FORMAT).option("files", json.dumps(list(paths)))
        return (reader if run is None else reader.option("run", run)).load()
    return decode(spark.read.format("binaryFile").load(list(paths)), run)


def decode(files: DataFrame, run: str | None) -> DataFrame:
    """The records of `files`, rows of Spark's format binaryFile, which any Hadoop file system
    has. A file is in memory as a whole: 2 GiB at most, and better 64 MiB."""
    return files.select("path", "content").mapInArrow(_decoder(run), RECORD)


def _decoder(
    run: str | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch.column(0), batch.column(1), strict=True):
                digest = hashlib.sha256(content.as_buffer()).hexdigest()
                name = _name(path.as_py())
                with tempfile.NamedTemporaryFile(suffix=_suffix(name)) as copy:
                    copy.write(content.as_buffer())
                    copy.flush()
                    yield from read_file(copy.name, name, run, {"digest": digest})

    return convert


def _look(spark: SparkSession, path: str) -> Iterator[TraceFileInfo]:
    if _is_local(path):
        for found in find(path):
            with open(found, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield TraceFileInfo(found, os.path.getsize(found), digest)
        return
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    listing = reader.option("pathGlobFilter", FINISHED).load(path)
    rows = listing.select("path", "length", F.sha2("content", 256).alias("digest")).collect()
    if not rows:
        raise FileNotFoundError(f"no trace files at {path}")
    for row in sorted(rows, key=lambda row: str(row.path)):
        yield TraceFileInfo(row.path, row.length, row.digest)


def _is_local(path: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]+:", path) is None or path.startswith("file://")


def _name(path: str) -> str:
    # Hadoop writes local URIs with one slash.
    return re.sub(r"^file:/+", "/", path)


def _suffix(path: str) -> str:
    return ".gz" if path.endswith(".gz") else ""


def _batches(files: Sequence[TraceFileInfo]) -> Iterator[list[TraceFileInfo]]:
    batch: list[TraceFileInfo] = []
    size = 0
    for file in sorted(files, key=lambda file: file.path):
        if batch and (
            size + file.size > BATCH_BYTES or _is_local(file.path) != _is_local(batch[0].path)
        ):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def _batch_name(files: Sequence[TraceFileInfo], run: str | None) -> str:
    content = json.dumps([run, sorted((file.path, file.digest) for file in files)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
