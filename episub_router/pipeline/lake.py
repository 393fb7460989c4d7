"""Where tables are kept: one directory, local or at a URI that the engine and pyarrow can write to.

    LAKE/bronze/batch=B/run=R/status=S/    records (`schemas.RECORD`), status event or quarantined
    LAKE/manifest/batch=B/                 which files batch B was made of (`schemas.MANIFEST`)
    LAKE/silver/TABLE/run=R/               facts
    LAKE/gold/TABLE/run=R/                 answers
    LAKE/live/TABLE/run=R/batch=N/         what a stream makes (`stream`)
    LAKE/staging/                          what is being written

What is complete is moved out of `staging`, so that nobody sees half a batch or half a table. A
batch counts once it is in the manifest, which is written last.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from episub_router.pipeline.params import SECOND
from episub_router.pipeline.schemas import RECORD
from episub_router.pipeline.storage import (
    Storage,
    escaped,
    is_local,
    local_path,
    put_back,
    replace,
)

BRONZE, SILVER, GOLD = "bronze", "silver", "gold"
_LIVE = "live"

STATUSES = ("event", "quarantined", "file")

SUMMARY = "summary"
"""The format of a simulation that left no trace, only its summary."""

_ASIDE = "staging/aside"
"""Where a run of a table is while another one takes its place."""

_SCHEMA = "_schema.json"
_ENTRIES = "entries.json"


class LakeError(Exception):
    """The lake, or what is to be put into it, isn't as it should be; `str()` says what."""


def batch_name(number: int) -> str:
    """The name of a stream's batch, in whose order batches sort."""
    return f"{number:08d}"


def stream_prefix(run: str) -> str:
    """What the names of the batches begin with that a stream has taken into `run`."""
    return f"stream-{run}-"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the manifest (`schemas.MANIFEST`)."""

    batch: str
    run: str
    file: str
    digest: str
    bytes: int
    format: str
    records: int
    events: int
    quarantined: int
    late: int = 0
    latest: int | None = None
    result: str | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Staging:
    """Where a batch is written before it counts; tasks get this."""

    path: str
    directories: Mapping[str, str]
    """By run."""

    def of_run(self, run: str) -> str:
        """The directory of a run; below it are `status=S/`."""
        return f"{self.path}/{self.directories[run]}"


def read_manifest(root: str) -> list[Entry]:
    """All files that have been ingested into the lake at `root`, in order of batch and file."""
    entries = _named(Storage(), root)
    replaced = {entry.origin for entry in entries}
    return [entry for entry in entries if entry.batch not in replaced]


def _named(storage: Storage, root: str) -> list[Entry]:
    """All that the manifest names, and what others have replaced, too."""
    entries = []
    for directory in storage.names(f"{root}/manifest"):
        text = storage.get(f"{root}/manifest/{directory}/{_ENTRIES}") or ""
        entries += [Entry(**json.loads(line)) for line in text.splitlines()]
    return sorted(entries, key=lambda entry: (entry.batch, entry.file))


class Lake:
    """The tables under `root`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.session = spark
        self.root = root.rstrip("/")
        self._storage = Storage()
        if is_local(root):
            # Workers are elsewhere.
            self.root = os.path.abspath(local_path(root))

    # Bronze.

    def manifest(self) -> list[Entry]:
        """All files that have been ingested, in order of batch and file."""
        return read_manifest(self.root)

    def stage(self, batch: str, runs: Iterable[str]) -> Staging:
        """A place to write the records of `batch` to, without what an interrupted attempt left."""
        path = f"{self.root}/staging/bronze/{self._partition('batch', batch)}"
        self._storage.remove(path)
        staging = Staging(path, {run: self._partition("run", run) for run in runs})
        for run in () if is_local(self.root) else staging.directories:
            # Tasks put whole files there, and nothing that would make directories for them.
            for status in STATUSES:
                self._storage.make(f"{staging.of_run(run)}/status={status}")
        return staging

    def commit(self, batch: str, entries: Sequence[Entry]) -> list[Entry]:
        """Make what was staged as `batch` part of the lake; its `entries`.

        Raises LakeError if what was written is not as many records as the readers counted.
        """
        for entry in entries:
            if entry.records != entry.events + entry.quarantined:
                raise LakeError(
                    f"{entry.file}: {entry.records} records were read, but {entry.events} events "
                    f"and {entry.quarantined} quarantined records were written"
                )
        partition = self._partition("batch", batch)
        self._storage.remove(f"{self.root}/{BRONZE}/{partition}")
        self._storage.rename(
            f"{self.root}/staging/bronze/{partition}", f"{self.root}/{BRONZE}/{partition}"
        )
        self._name(batch, entries)
        return list(entries)

    def forget_replaced(self) -> list[str]:
        """Remove batches that others have replaced; the directories that were removed."""
        entries = _named(self._storage, self.root)
        there = {self._partition("batch", entry.batch) for entry in entries}
        replaced = {self._partition("batch", entry.origin) for entry in entries if entry.origin}
        gone = []
        for batch in sorted(replaced & there):
            # The manifest last: without it, nothing would say that there is anything to remove.
            gone += [f"{self.root}/{BRONZE}/{batch}", f"{self.root}/manifest/{batch}"]
        for path in gone:
            self._storage.remove(path)
        return gone

    def _name(self, batch: str, entries: Sequence[Entry]) -> None:
        """Write the manifest of `batch`."""
        lines = [json.dumps(asdict(entry), sort_keys=True) + "\n" for entry in entries]
        path = f"{self.root}/manifest/{self._partition('batch', batch)}/{_ENTRIES}"
        self._storage.put(path, "".join(lines))

    def records(
        self, runs: Sequence[str] | None = None, batches: Collection[str] | None = None
    ) -> DataFrame:
        """The records of `runs`, by default of all, in some `batches` or in all. Raises LakeError
        where there are none."""
        entries = [entry for entry in self.manifest() if entry.format != SUMMARY]
        known = {entry.run for entry in entries}
        unknown = [run for run in runs or () if run not in known]
        if unknown or not entries:
            names = ", ".join(sorted(known)) or "none"
            wanted = f"run {', '.join(unknown)}" if unknown else "run"
            raise LakeError(f"no {wanted} in {self.root}; there are {names}")
        paths = sorted(
            {
                f"{self.root}/{BRONZE}/{self._partition('batch', entry.batch)}"
                for entry in entries
                if (runs is None or entry.run in runs)
                and (batches is None or entry.batch in batches)
            }
        )
        reader = self.session.read.schema(RECORD).option("basePath", f"{self.root}/{BRONZE}")
        table = reader.parquet(*paths).select(*RECORD.names)
        return table if runs is None else table.where(F.col("run").isin(list(runs)))

    def runs(self) -> list[str]:
        """The runs that have records."""
        return sorted({entry.run for entry in self.manifest() if entry.format != SUMMARY})

    def faults(self, runs: Sequence[str]) -> list[tuple[str, int, str, int]]:
        """What went wrong in those of `runs` that were simulated here, as the simulator says: (run,
        time in ns, kind, nodes)."""
        simulated = [
            (entry.run, json.loads(entry.result)) for entry in self.manifest() if entry.result
        ]
        return [
            (run, round(fault["at"] * SECOND), fault["kind"], fault["nodes"])
            for run, summary in simulated
            for fault in summary.get("faults", ())
            if run in runs
        ]

    def events(
        self, runs: Sequence[str] | None = None, batches: Collection[str] | None = None
    ) -> DataFrame:
        """The events among `records`, but for late ones of a stream."""
        table = self.records(runs, batches)
        return table.where((F.col("status") == "event") & ~F.col("late")).drop("status", "detail")

    # Silver and gold.

    def write(self, layer: str, name: str, table: DataFrame, runs: Sequence[str]) -> DataFrame:
        """Write `table`, which has rows of `runs`, as `put` does. Returns what is written of these
        runs."""
        self.put(layer, name, table, runs, is_empty=False)
        return self.read(layer, name, runs)

    def put(
        self, layer: str, name: str, table: DataFrame, runs: Sequence[str], is_empty: bool
    ) -> None:
        """Write `table`, which has rows of `runs`, in place of what it had of them; other runs
        stay. If it `is_empty` it isn't looked at."""
        path = f"{self.root}/{layer}/{name}"
        # Of this writer alone: another one may write other runs at the same time.
        staged = f"{self.root}/staging/{layer}/{name}-{uuid.uuid4().hex}"
        if not is_empty:
            table.write.mode("overwrite").partitionBy("run").parquet(staged)
        for run in runs:
            part = self._partition("run", run)
            aside = f"{self.root}/{_ASIDE}/{layer}/{name}/{part}"
            replace(self._storage, f"{staged}/{part}", f"{path}/{part}", aside)
        self._storage.remove(staged)
        # Empty tables have no file that would tell.
        self._storage.put(f"{path}/{_SCHEMA}", table.schema.json())

    def has(self, layer: str, name: str, runs: Sequence[str]) -> bool:
        """Whether a table has rows of any of `runs`."""
        parts = {self._partition("run", run) for run in runs}
        return not parts.isdisjoint(self._storage.names(f"{self.root}/{layer}/{name}"))

    def read(self, layer: str, name: str, runs: Iterable[str] | None = None) -> DataFrame:
        """A table that was written. Raises LakeError where there is none."""
        path = f"{self.root}/{layer}/{name}"
        schema = self._storage.get(f"{path}/{_SCHEMA}")
        if schema is None:
            raise LakeError(f"no table {name} in {self.root}/{layer}")
        typed = StructType.fromJson(json.loads(schema))
        table = self.session.read.schema(typed).parquet(path).select(*typed.names)
        if runs is None:
            return table
        chosen = list(runs)
        # Without rows, nothing is planned for what follows from them.
        there = self.has(layer, name, chosen)
        return table.where(F.col("run").isin(chosen)) if there else table.limit(0)

    def tables(self, layer: str) -> list[str]:
        """The tables that were written, by name."""
        return self._storage.names(f"{self.root}/{layer}")

    # Housekeeping.

    def remove(self, run: str) -> None:
        """Take `run` out of all tables. One that was interrupted can be repeated. Raises LakeError
        where there is no such run."""
        self.forget_replaced()
        entries = self.manifest()
        batches = {entry.batch for entry in entries if entry.run == run}
        if not batches:
            known = ", ".join(sorted({entry.run for entry in entries})) or "none"
            raise LakeError(f"no run {run} in {self.root}; there are {known}")
        part = self._partition("run", run)
        for layer in (SILVER, GOLD, _LIVE):
            for name in self.tables(layer):
                for root in (f"{self.root}/{_ASIDE}", self.root):
                    self._storage.remove(f"{root}/{layer}/{name}/{part}")
        self._storage.remove(self.checkpoint(run))
        for batch in sorted(batches):
            others = [entry for entry in entries if entry.batch == batch and entry.run != run]
            in_manifest, where = self._partition("batch", batch), f"{self.root}/{BRONZE}"
            # The manifest first: what it doesn't name isn't there.
            if others:
                self._name(batch, others)
                self._storage.remove(f"{where}/{in_manifest}/{part}")
            else:
                self._storage.remove(f"{self.root}/manifest/{in_manifest}")
                self._storage.remove(f"{where}/{in_manifest}")

    def vacuum(self) -> list[str]:
        """Remove what isn't part of the lake: what interrupted writers left, but for what they had
        put aside and nothing has replaced. Not to be called while something is being written. The
        directories that were removed."""
        put_back(self._storage, f"{self.root}/{_ASIDE}", self.root)
        replaced = self.forget_replaced()
        named: dict[str, set[str]] = {}
        for entry in self.manifest():
            runs = named.setdefault(self._partition("batch", entry.batch), set())
            runs.add(self._partition("run", entry.run))
        bronze = f"{self.root}/{BRONZE}"
        gone = [f"{self.root}/staging"] if self._storage.names(f"{self.root}/staging") else []
        for batch in self._storage.names(bronze):
            if batch not in named:
                gone.append(f"{bronze}/{batch}")
            else:
                gone += [
                    f"{bronze}/{batch}/{run}"
                    for run in self._storage.names(f"{bronze}/{batch}")
                    if run not in named[batch]
                ]
        for path in gone:
            self._storage.remove(path)
        return [*replaced, *gone]

    # Live.

    def write_live(self, name: str, run: str, number: int, table: DataFrame, *by: str) -> DataFrame:
        """Write batch `number` of a stream's table `name`, in parts by some columns; what is
        written."""
        where = self._live(name, run, number)
        table.write.mode("overwrite").partitionBy(*by).parquet(where)
        self._storage.put(f"{self.root}/{_LIVE}/{name}/{_SCHEMA}", table.schema.json())
        return self.session.read.schema(table.schema).parquet(where).select(*table.columns)

    def read_live(self, name: str, run: str, number: int) -> DataFrame:
        """Batch `number` of a stream's table."""
        schema = self._live_schema(name)
        return self.session.read.schema(schema).parquet(self._live(name, run, number))

    def read_closed(self, name: str, run: str, number: int) -> DataFrame | None:
        """A stream's table as it is after batch `number`: what is closed, of all batches up to it,
        and what is open in it. None where there is nothing."""
        path, last = self._live_of(name, run), f"batch={batch_name(number)}"
        until = [batch for batch in self._storage.names(path) if batch <= last]
        parts = [f"{path}/{batch}/closed=true" for batch in until]
        parts += [f"{path}/{batch}/closed=false" for batch in until if batch == last]
        there = [path for path in parts if self._storage.names(path)]
        if not there:
            return None
        schema = self._live_schema(name)
        kept = StructType([field for field in schema.fields if field.name != "closed"])
        return self.session.read.schema(kept).parquet(*there)

    def forget_live(self, name: str, run: str, number: int, part: str = "") -> None:
        """Remove batches before `number` of a stream's table, or that `part` of each."""
        path = self._live_of(name, run)
        for batch in self._storage.names(path):
            if batch < f"batch={batch_name(number)}":
                self._storage.remove(f"{path}/{batch}{part}")

    def live_progress(self, run: str) -> dict[str, Any] | None:
        """What the stream of `run` said that it has done; None where there is none."""
        text = self._storage.get(self._progress(run))
        return None if text is None else json.loads(text)

    def put_live_progress(self, run: str, progress: Mapping[str, Any]) -> None:
        """Say what the stream of `run` has done: what was written counts from now on."""
        self._storage.put(self._progress(run), json.dumps(progress))

    def _progress(self, run: str) -> str:
        return f"{self._live_of('progress', run)}/progress.json"

    def _live(self, name: str, run: str, number: int) -> str:
        return f"{self._live_of(name, run)}/batch={batch_name(number)}"

    def _live_of(self, name: str, run: str) -> str:
        return f"{self.root}/{_LIVE}/{name}/{self._partition('run', run)}"

    def _live_schema(self, name: str) -> StructType:
        text = self._storage.get(f"{self.root}/{_LIVE}/{name}/{_SCHEMA}")
        return StructType.fromJson(json.loads(text or "{}"))

    def checkpoint(self, run: str) -> str:
        """Where Spark remembers how far the stream of `run` is."""
        return f"{self.root}/checkpoints/{escaped(run)}"

    def _partition(self, key: str, value: str) -> str:
        return f"{key}={escaped(value)}"
