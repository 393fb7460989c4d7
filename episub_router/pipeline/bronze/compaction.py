"""Many small batches of bronze as few large ones."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from episub_router.pipeline.lake import SUMMARY, Entry, Lake, LakeError, stream_prefix

LARGE = 1 << 30
"""Bytes of traces in a batch from which on it stays as it is, and up to which others are taken
together."""

_PER_FILE = 256 << 20
"""Bytes of traces in a Parquet file, which is a fraction of that."""
_ROW_GROUP = 16 << 20
"""Bytes of rows of one kind of event, mostly, so that a query for another passes over them."""

_HELD_BACK = 2
"""A stream's last batches: the next one reads the last, and it may be repeated itself."""

_PREFIX = "compact-"
"""Before the names of streams' batches, in the order in which a watermark asks for those before."""


def compact(lake: Lake, runs: Sequence[str] | None = None) -> list[str]:
    """Put the records of small batches together, of `runs` or of all; the names of the batches that
    are new. What was interrupted can be repeated. Not to be called while somebody reads the records
    of these runs; streams may go on meanwhile.

    Raises LakeError where a run isn't there, and where what was written isn't what was read.
    """
    lake.forget_replaced()
    entries = [entry for entry in lake.manifest() if entry.format != SUMMARY]
    unknown = sorted(set(runs or ()) - {entry.run for entry in entries})
    if unknown:
        raise LakeError(f"no run {', '.join(unknown)} in {lake.root}")
    return [
        _put_together(lake, run, group)
        for run, group in _groups(entries)
        if runs is None or run in runs
    ]


def _groups(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """(run, entries of some small batches), of batches that have no other run."""
    of_batch: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_batch[entry.batch].append(entry)
    of_run: defaultdict[str, list[list[Entry]]] = defaultdict(list)
    for batch in of_batch.values():
        if len({entry.run for entry in batch}) == 1 and _bytes(batch) < LARGE:
            of_run[batch[0].run].append(batch)
    for run, batches in sorted(of_run.items()):
        streamed = sorted(batch[0].batch for batch in batches if _is_streamed(batch[0]))
        kept = set(streamed[-_HELD_BACK:])
        group: list[Entry] = []
        for batch in batches:
            if batch[0].batch in kept:
                continue
            if group and _bytes(group) + _bytes(batch) > LARGE:
                yield from _worth_it(run, group)
                group = []
            group += batch
        yield from _worth_it(run, group)


def _worth_it(run: str, group: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    if len({entry.batch for entry in group}) > 1:
        yield run, group


def _is_streamed(entry: Entry) -> bool:
    return entry.batch.startswith(stream_prefix(entry.run))


def _bytes(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _put_together(lake: Lake, run: str, entries: Sequence[Entry]) -> str:
    replaced = sorted({entry.batch for entry in entries})
    name = _PREFIX + hashlib.sha256("\n".join(replaced).encode()).hexdigest()[:16]
    staging = lake.stage(name, [run])
    files = -(-_bytes(entries) // _PER_FILE) or 1
    records = lake.records([run], replaced)
    (
        records.repartition(files, "file")
        .sortWithinPartitions("status", "event", "file", "offset")
        .drop("run")
        .write.mode("overwrite")
        .option("parquet.block.size", _ROW_GROUP)
        .partitionBy("status")
        .parquet(staging.of_run(run))
    )
    written = lake.session.read.schema(records.drop("run").schema).parquet(staging.of_run(run))
    counted = written.groupBy("file").agg(
        F.count_if(F.col("status") == "event").alias("events"),
        F.count_if(F.col("status") == "quarantined").alias("quarantined"),
    )
    found = {row.file: (row.events, row.quarantined) for row in counted.collect()}
    wanted: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for entry in entries:
        events, quarantined = wanted[entry.file]
        wanted[entry.file] = events + entry.events, quarantined + entry.quarantined
    if found != wanted:
        raise LakeError(f"not all records of run {run} were written again; nothing has changed")
    lake.commit(name, [replace(entry, batch=name, origin=entry.batch) for entry in entries])
    lake.forget_replaced()
    return name
