"""Many small batches of bronze as few large ones."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from episub_router.pipeline.bronze.tasks import Batch, write_records
from episub_router.pipeline.lake import SUMMARY, Entry, Lake, LakeError, stream_prefix
from episub_router.pipeline.record import ENCODED

LARGE = 1 << 30
"""Bytes of traces in a batch from which on it stays as it is, and up to which others are taken
together."""

_HELD_BACK = 2
"""A stream's last batches: the next one reads the last, which may have no answers itself yet."""

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
    if runs:
        lake.check(entries, runs)
    return [
        _put_together(lake, group)
        for group in _groups(entries)
        if len({entry.batch for entry in group}) > 1 and (runs is None or group[0].run in runs)
    ]


def _groups(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Entries of some small batches of a run, of batches that have no other run."""
    of_batch: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_batch[entry.batch].append(entry)
    by_run: defaultdict[str, list[list[Entry]]] = defaultdict(list)
    for batch in of_batch.values():
        if len({entry.run for entry in batch}) == 1 and _bytes(batch) < LARGE:
            by_run[batch[0].run].append(batch)
    for run, batches in sorted(by_run.items()):
        names = sorted(batch[0].batch for batch in batches)
        streamed = [name for name in names if name.startswith(stream_prefix(run))]
        group: list[Entry] = []
        for batch in batches:
            if batch[0].batch in streamed[-_HELD_BACK:]:
                continue
            if _bytes(group) + _bytes(batch) > LARGE:
                yield group
                group = []
            group += batch
        yield group


def _bytes(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _put_together(lake: Lake, entries: Sequence[Entry]) -> str:
    run, replaced = entries[0].run, sorted({entry.batch for entry in entries})
    name = _PREFIX + hashlib.sha256("\n".join(replaced).encode()).hexdigest()[:16]
    records = lake.recorded(run, replaced).to_batches()
    encoded = (batch.select(ENCODED.names).cast(ENCODED) for batch in records)
    made, _ = write_records(encoded, run, "part-00000", Batch(name, lake.stage(name)))
    found = {entry.file: (entry.events, entry.quarantined) for entry in made}
    wanted: dict[str, tuple[int, int]] = {}
    for entry in entries:
        events, quarantined = wanted.get(entry.file, (0, 0))
        wanted[entry.file] = events + entry.events, quarantined + entry.quarantined
    if found != wanted:
        raise LakeError(f"not all records of run {run} were written again; nothing has changed")
    lake.commit(name, [replace(entry, batch=name, origin=entry.batch) for entry in entries])
    lake.forget_replaced()
    return name
