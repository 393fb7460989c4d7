"""Where tables are kept: one directory, local or at a URI that the engine and pyarrow can write to.

    LAKE/bronze/batch=B/run=R/status=S/    records (`RECORD`), status event or quarantined
    LAKE/manifest/batch=B/                 which files batch B was made of (`Entry`)
    LAKE/silver/TABLE/run=R/               facts
    LAKE/gold/TABLE/run=R/                 answers
    LAKE/live/TABLE/run=R/batch=N/         what a stream makes (`stream`)
    LAKE/staging/                          what is being written

What is complete is moved out of `staging`, so that nobody sees half a batch or half a table. A
batch counts once it is in the manifest, which is written last.
"""

import json
import os
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from episub_router.pipeline.engine import read, write
from episub_router.pipeline.params import SECOND
from episub_router.pipeline.record import RECORD as _ARROW_RECORD
from episub_router.pipeline.storage import Storage, at, escaped, is_local, local_path

RECORD: StructType = from_arrow_schema(_ARROW_RECORD)
"""The columns of bronze, as Spark has them."""

BRONZE, SILVER, GOLD = "bronze", "silver", "gold"
_LIVE = "live"

STATUSES = ("event", "quarantined", "file")

SUMMARY = "summary"
"""The format of a simulation that left no trace, only its summary."""

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
    """A row of the manifest."""

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


def of_run(batch: str, run: str) -> str:
    """The directory of `run` in that of a batch of bronze; below it are `status=S/`."""
    return f"{batch}/run={escaped(run)}"


def is_of(runs: Iterable[str]) -> Column:
    """Whether a row of bronze, or of a table that was written, is of one of `runs`."""
    # Of a plain comparison, Sail makes the directory's name, and escapes less in it.
    return F.concat("run", F.lit("")).isin(list(runs))


class Lake:
    """The tables under `root`: DataFrames of the engine `spark`, or Arrow's, without an engine, for
    those who only look."""

    def __init__(self, spark: SparkSession | None, root: str) -> None:
        self._session = spark
        # Workers are elsewhere.
        local = os.path.abspath(local_path(root)) if is_local(root) else root
        self.root = local.rstrip("/")
        self._storage = Storage()

    @property
    def session(self) -> SparkSession:
        """The engine's."""
        assert self._session is not None, "a command that only looks has no engine"
        return self._session

    def _at(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    # Bronze.

    def manifest(self) -> list[Entry]:
        """All files that have been ingested, in order of batch and file."""
        entries = self._named()
        replaced = {entry.origin for entry in entries}
        return [entry for entry in entries if entry.batch not in replaced]

    def _named(self) -> list[Entry]:
        """All that the manifest names, and what others have replaced, too."""
        entries = []
        for directory in self._storage.names(self._at("manifest")):
            text = self._storage.get(self._at("manifest", directory, _ENTRIES)) or ""
            entries += [Entry(**json.loads(line)) for line in text.splitlines()]
        return sorted(entries, key=lambda entry: (entry.batch, entry.file))

    def stage(self, batch: str) -> str:
        """A place to write the records of `batch` to, without what an interrupted attempt left."""
        path = self._at("staging", BRONZE, _batch(batch))
        self._storage.remove(path)
        return path

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
        place = self._at(BRONZE, _batch(batch))
        self._storage.remove(place)
        self._storage.rename(self._at("staging", BRONZE, _batch(batch)), place)
        self._put_entries(batch, entries)
        return list(entries)

    def _put_entries(self, batch: str, entries: Sequence[Entry]) -> None:
        """Write the manifest of `batch`."""
        lines = [json.dumps(asdict(entry), sort_keys=True) + "\n" for entry in entries]
        self._storage.put(self._at("manifest", _batch(batch), _ENTRIES), "".join(lines))

    def forget_replaced(self) -> list[str]:
        """Remove batches that others have replaced; the directories that were removed."""
        entries = self._named()
        replaced = {entry.batch for entry in entries} & {entry.origin for entry in entries}
        gone = []
        for batch in sorted(replaced):
            # The manifest last: without it, nothing would say that there is anything to remove.
            gone += [self._at(BRONZE, _batch(batch)), self._at("manifest", _batch(batch))]
        for path in gone:
            self._storage.remove(path)
        return gone

    def runs(self) -> list[str]:
        """The runs that have records."""
        return sorted({entry.run for entry in self.manifest() if entry.format != SUMMARY})

    def records(
        self, runs: Sequence[str] | None = None, batches: Collection[str] | None = None
    ) -> DataFrame:
        """The records of `runs`, by default of all, in some `batches` or in all. Raises LakeError
        where there are none."""
        if batches is None:
            entries = [entry for entry in self.manifest() if entry.format != SUMMARY]
            self.check(entries, runs or ())
            batches = {entry.batch for entry in entries if runs is None or entry.run in runs}
        paths = {self._at(BRONZE, _batch(batch)) for batch in batches}
        table = read(RECORD, self.session, *sorted(paths), base=self._at(BRONZE))
        return table if runs is None else table.where(is_of(runs))

    def check(self, entries: Sequence[Entry], runs: Iterable[str]) -> None:
        """Raise LakeError where `entries` have none of one of `runs`, or there are none."""
        known = {entry.run for entry in entries}
        unknown = sorted(set(runs) - known)
        if unknown or not known:
            names = ", ".join(sorted(known)) or "none"
            wanted = f"run {', '.join(unknown)}".rstrip()
            raise LakeError(f"no {wanted} in {self.root}; there are {names}")

    def events(
        self, runs: Sequence[str] | None = None, batches: Collection[str] | None = None
    ) -> DataFrame:
        """The events among `records`, but for late ones of a stream."""
        table = self.records(runs, batches)
        return table.where("status = 'event' AND NOT late").drop("status", "detail")

    def recorded(
        self, run: str, batches: Iterable[str], statuses: Iterable[str] = STATUSES
    ) -> ds.Dataset:
        """The records of `run` in some `batches`, without an engine."""
        of_batches = [of_run(self._at(BRONZE, _batch(batch)), run) for batch in batches]
        places = [f"{place}/status={status}" for place in of_batches for status in statuses]
        return self._dataset(places, _ARROW_RECORD)

    def traced(self, run: str, *kinds: str) -> ds.Dataset:
        """The events of `run` that are of some kinds, without an engine."""
        batches = sorted({entry.batch for entry in self.manifest() if entry.run == run})
        return self.recorded(run, batches, ["event"]).filter(ds.field("event").isin(kinds))

    def faults(self, runs: Sequence[str]) -> list[tuple[str, int, str, int]]:
        """What went wrong in those of `runs` that were simulated here, as the simulator says: (run,
        time in ns, kind, nodes)."""
        return [
            (entry.run, round(fault["at"] * SECOND), fault["kind"], fault["nodes"])
            for entry in self.manifest()
            if entry.run in runs and entry.result
            for fault in json.loads(entry.result).get("faults", ())
        ]

    # Silver and gold.

    def write(self, layer: str, name: str, table: DataFrame, runs: Sequence[str]) -> DataFrame:
        """Write `table`, which has rows of `runs`, in place of what it had of them; other runs
        stay. Returns what is written of these runs."""
        # Of this writer alone: another one may write other runs at the same time.
        staged = self._at("staging", layer, f"{name}-{uuid.uuid4().hex}")
        kept = write(table, staged, "run")
        # Engines differ in what they escape.
        parts = {unquote(part): part for part in self._storage.names(staged)}
        for run in runs:
            new = f"{staged}/{parts.get(f'run={run}', f'run={escaped(run)}')}"
            place = of_run(self._at(layer, name), run)
            self._storage.rename(place, f"{new}.old")
            # Whoever is killed here has bronze to make both of.
            self._storage.rename(new, place)
        self._storage.remove(staged)
        # Empty tables have no file that would tell.
        self._storage.put(self._at(layer, name, _SCHEMA), table.schema.json())
        return self.read(layer, name, runs) if kept is None else kept

    def read(self, layer: str, name: str, runs: Iterable[str] | None = None) -> DataFrame:
        """A table that was written. Raises LakeError where there is none."""
        typed = self._schema(layer, name)
        table = read(typed, self.session, self._at(layer, name))
        if runs is None:
            return table
        chosen = list(runs)
        # Without rows, nothing is planned for what follows from them.
        parts = {f"run={escaped(run)}" for run in chosen}
        is_empty = parts.isdisjoint(self._storage.names(self._at(layer, name)))
        return table.limit(0) if is_empty else table.where(is_of(chosen))

    def look(self, layer: str, name: str, runs: Iterable[str] | None = None) -> ds.Dataset:
        """A table that was written, without an engine. Raises LakeError where there is none."""
        place = self._at(layer, name)
        there = self._storage.names(place)
        parts = there if runs is None else [f"run={escaped(run)}" for run in runs]
        places = [f"{place}/{part}" for part in parts if part in there and part != _SCHEMA]
        return self._dataset(places, to_arrow_schema(self._schema(layer, name)))

    def _dataset(self, places: Iterable[str], schema: pa.Schema) -> ds.Dataset:
        """The Parquet files in the directories `places`, with what their paths say."""
        files = [at(f"{place}/{name}")[1] for place in places
                 for name in self._storage.names(place) if name.endswith(".parquet")]  # fmt: skip
        system, base = at(self.root)
        said = ds.partitioning(
            pa.schema(dict.fromkeys(("run", "status"), pa.string())), flavor="hive"
        )
        return ds.dataset(files, schema, "parquet", system, said, base)

    def _schema(self, layer: str, name: str) -> StructType:
        text = self._storage.get(self._at(layer, name, _SCHEMA))
        if text is None:
            raise LakeError(f"no table {name} in {self.root}/{layer}")
        return StructType.fromJson(json.loads(text))

    def tables(self, layer: str) -> list[str]:
        """The tables that were written, by name."""
        return self._storage.names(self._at(layer))

    # Housekeeping.

    def remove(self, run: str) -> None:
        """Take `run` out of all tables. One that was interrupted can be repeated. Raises LakeError
        where there is no such run."""
        self.forget_replaced()
        entries = self.manifest()
        self.check(entries, [run])
        for layer in (SILVER, GOLD, _LIVE):
            for name in self.tables(layer):
                self._storage.remove(of_run(self._at(layer, name), run))
        for batch in sorted({entry.batch for entry in entries if entry.run == run}):
            others = [entry for entry in entries if entry.batch == batch and entry.run != run]
            place = self._at(BRONZE, _batch(batch))
            # The manifest first: what it doesn't name isn't there.
            if others:
                self._put_entries(batch, others)
                self._storage.remove(of_run(place, run))
            else:
                self._storage.remove(self._at("manifest", _batch(batch)))
                self._storage.remove(place)

    def vacuum(self) -> list[str]:
        """Remove what isn't part of the lake: what interrupted writers left. Not to be called while
        something is being written. The directories and files that were removed."""
        replaced = self.forget_replaced()
        named: dict[str, set[str]] = {}
        for entry in self.manifest():
            named.setdefault(_batch(entry.batch), set()).add(f"run={escaped(entry.run)}")
        gone = [self._at("staging")] if self._storage.names(self._at("staging")) else []
        for batch in self._storage.names(self._at(BRONZE)):
            runs = self._storage.names(self._at(BRONZE, batch)) if batch in named else []
            gone += [self._at(BRONZE, batch, run) for run in runs if run not in named[batch]]
            gone += [] if batch in named else [self._at(BRONZE, batch)]
        for path in gone:
            self._storage.remove(path)
        return [*replaced, *gone, *self._storage.remove_left(self.root)]

    # Live.

    def write_live(self, name: str, run: str, number: int, table: DataFrame, *by: str) -> DataFrame:
        """Write batch `number` of a stream's table `name`, in parts by some columns; what is
        written."""
        where = self._live(name, run, number)
        self._storage.remove(where)
        kept = write(table, where, *by)
        self._storage.put(self._at(_LIVE, name, _SCHEMA), table.schema.json())
        return read(table.schema, self.session, where) if kept is None else kept

    def read_live(self, name: str, run: str, *numbers: int) -> DataFrame:
        """Some batches of a stream's table."""
        places = [self._live(name, run, number) for number in numbers]
        base = of_run(self._at(_LIVE, name), run)
        return read(self._schema(_LIVE, name), self.session, *places, base=base)

    def look_live(self, name: str, run: str, number: int) -> pa.Table:
        """A stream's table as it is after batch `number`, without an engine: what is closed, of all
        batches up to it, and what is open in it."""
        path, last = of_run(self._at(_LIVE, name), run), _batch(batch_name(number))
        until = [batch for batch in self._storage.names(path) if batch <= last]
        parts = [f"{path}/{batch}/closed=true" for batch in until]
        parts.append(f"{path}/{last}/closed=false")
        schema = to_arrow_schema(self._schema(_LIVE, name))
        return self._dataset(parts, schema).to_table().drop(["closed"])

    def forget_live(self, name: str, run: str, number: int, part: str = "") -> None:
        """Remove batches before `number` of a table, or that `part` of the last one of them."""
        path = of_run(self._at(_LIVE, name), run)
        until = _batch(batch_name(number))
        earlier = [batch for batch in self._storage.names(path) if batch < until]
        for batch in earlier[-1:] if part else earlier:
            self._storage.remove(f"{path}/{batch}{part}")

    def live_progress(self, run: str) -> dict[str, Any]:
        """What the stream of `run` said that it has done; nothing where there is none."""
        found: dict[str, Any] = json.loads(self._storage.get(self._progress(run)) or "{}")
        return found

    def put_live_progress(self, run: str, progress: Mapping[str, Any]) -> None:
        """Say what the stream of `run` has done: what was written counts from now on."""
        self._storage.put(self._progress(run), json.dumps(progress))

    def _progress(self, run: str) -> str:
        return of_run(self._at(_LIVE, "progress"), run) + "/progress.json"

    def _live(self, name: str, run: str, number: int) -> str:
        return f"{of_run(self._at(_LIVE, name), run)}/{_batch(batch_name(number))}"


def _batch(name: str) -> str:
    return f"batch={escaped(name)}"
