"""From trace files to bronze: each content once, all of it, in batches that can be resumed."""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from episub_router.pipeline.bronze.content import HEAD, head_of, is_grown
from episub_router.pipeline.bronze.tasks import Batch, TraceFileInfo, identify, write
from episub_router.pipeline.lake import Entry, Lake, LakeError
from episub_router.pipeline.reading.files import directory_of
from episub_router.pipeline.reading.source import find, is_finished, packed
from episub_router.pipeline.storage import files_at, is_local, local_path

BATCH_BYTES = 4 << 30
"""Input files that are committed together: what is repeated at most after an interruption."""


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

    @property
    def runs(self) -> list[str]:
        """The runs that the files, new or not, are in."""
        return sorted({entry.run for entry in (*self.added, *self.known)})


def ingest(
    spark: SparkSession,
    lake: Lake,
    inputs: Sequence[str],
    run: str | None = None,
    otherwise: str | None = None,
) -> Ingested:
    """Put the files at `inputs` (files, directories, patterns, or URIs of others) into `lake`.

    A file whose content is there already, under this `run` or any if none is named, adds nothing,
    gzipped or not; nor does, of files here, an earlier copy of one that has grown since.
    Without `run`, files are in the run that their header names; those without a header are in that
    of the files beside them or, where none of these has one either, in `otherwise`, by default one
    called after their directory.

    Raises LakeError for a file that was ingested before and has changed since, and for one without
    a header beside files of several runs; FileNotFoundError where there is no file.
    """
    files = [file for path in inputs for file in listed(path)]
    files = _latest(identify(spark, list({file.path: file for file in files}.values())))
    entries = lake.manifest()
    by_digest = {entry.digest: entry for entry in entries if run in (None, entry.run)}
    by_name = {entry.file: entry for entry in entries if run in (None, entry.run)}
    fresh: dict[str, TraceFileInfo] = {}
    known: list[Entry] = []
    for file in files:
        if file.digest in by_digest:
            known.append(by_digest[file.digest])
        elif file.name in by_name:
            raise LakeError(
                f"{file.name} has changed since it was ingested into run {by_name[file.name].run}; "
                "rotate traces instead of appending, or ingest it into another run"
            )
        else:
            fresh.setdefault(file.digest, file)
    if run is None:
        placed = _placed(list(fresh.values()), files, entries, otherwise)
    else:
        placed = [replace(file, run=run) for file in fresh.values()]
    added: list[Entry] = []
    placed.sort(key=lambda file: file.path)
    for batch in packed(placed, lambda file: file.size, BATCH_BYTES):
        added += take(spark, lake, _batch_name(batch, run), batch)
    return Ingested(tuple(added), tuple(known))


def take(
    spark: SparkSession,
    lake: Lake,
    name: str,
    files: Sequence[TraceFileInfo],
    late_before: int | None = None,
) -> list[Entry]:
    """Make `files`, whose runs are known, batch `name` of the lake's bronze, in place of what an
    interrupted attempt left of it. Events before `late_before` (ns) are marked as late."""
    made = write(spark, files, Batch(name, lake.stage(name), late_before))
    return lake.commit(name, made)


def listed(path: str) -> Iterator[TraceFileInfo]:
    """The files that `path` stands for. Raises FileNotFoundError where there are none."""
    if is_local(path):
        for found in find(path):
            about = os.stat(found)
            yield TraceFileInfo(found, about.st_size, about.st_mtime_ns)
        return
    there = sorted(file for file in files_at(path) if is_finished(file[0]))
    if not there:
        raise FileNotFoundError(f"no trace files at {path}")
    yield from (TraceFileInfo(*file) for file in there)


def _latest(files: Sequence[TraceFileInfo]) -> list[TraceFileInfo]:
    """`files` but for those that another one begins with."""
    alike: defaultdict[bytes, list[TraceFileInfo]] = defaultdict(list)
    for file in files:
        if is_local(file.path) and file.size >= HEAD:
            alike[head_of(local_path(file.path))].append(file)
    earlier = {
        file.path
        for group in alike.values()
        for file in group
        for other in group
        if other.size > file.size and is_grown(local_path(other.path), local_path(file.path))
    }
    return [file for file in files if file.path not in earlier]


def _placed(
    fresh: Sequence[TraceFileInfo],
    files: Sequence[TraceFileInfo],
    entries: Sequence[Entry],
    otherwise: str | None,
) -> list[TraceFileInfo]:
    """`fresh` with the runs that they belong to, taken from `files`, all that are looked at now,
    and `entries`, those that are there, or else `otherwise`."""
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        if file.run is not None:
            beside[os.path.dirname(file.name)].add(file.run)
    for entry in entries:
        beside[os.path.dirname(entry.file)].add(entry.run)
    placed = []
    for file in fresh:
        runs = sorted(beside[os.path.dirname(file.name)])
        if file.run is None and len(runs) > 1:
            raise LakeError(
                f"{file.name} has no header that can be read, and the files beside it are of the "
                f"runs {', '.join(runs)}: ingest it by itself, with --run"
            )
        name = file.run or (runs[0] if runs else otherwise or directory_of(file.name))
        placed.append(replace(file, run=name))
    return placed


def _batch_name(files: Sequence[TraceFileInfo], run: str | None) -> str:
    content = json.dumps([run, sorted((file.name, file.digest) for file in files)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
