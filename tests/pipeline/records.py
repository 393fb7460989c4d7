"""Runs made by hand, event by event, as records of a lake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake


def put_records(lake: Lake, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Make `runs`, the events of each by its name, part of `lake`, as if they had been read out of
    a trace file each."""
    import pyarrow as pa

    from episub_router.pipeline.bronze.tasks import Batch, write_records
    from episub_router.pipeline.record import ENCODED, RECORD

    batch = Batch("records", lake.stage("records"))
    entries = []
    for run, events in runs.items():
        books = {"bytes": 0, "format": "pb", "records": len(events)}
        rows = [{"status": "event", "offset": at, **event} for at, event in enumerate(events)]
        rows.append({"status": "file", "offset": len(events), "detail": json.dumps(books)})
        about = {"run": run, "file": "f", "late": False}
        table = pa.Table.from_pylist([row | about for row in rows], RECORD).cast(ENCODED)
        made, _ = write_records(iter(table.to_batches()), run, "part-0", batch)
        entries += made
    lake.commit(batch.name, entries)
