"""Where tables are kept: one directory, local or at any URI that Hadoop can write to.

    LAKE/bronze/batch=B/run=R/status=S/    records (`schemas.RECORD`), status event or quarantined
    LAKE/manifest/batch=B/                 which files batch B was made of (`schemas.MANIFEST`)
    LAKE/silver/TABLE/run=R/               facts
    LAKE/gold/TABLE/run=R/                 answers

A batch counts once it is in the manifest, which is written last and in one file. What a killed
writer left behind without that is overwritten when the same batch is written again, and never
read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from episub_router.pipeline.schemas import MANIFEST, RECORD

BRONZE, SILVER, GOLD = "bronze", "silver", "gold"

_SCHEMA = "_schema.json"
_NO_BOOKS = {"records": -1, "bytes": 0}


class LakeError(Exception):
    """The lake, or what is to be put into it, isn't as it should be; `str()` says what."""


def batch_name(number: int) -> str:
    """The name of a stream's batch, in whose order batches sort."""
    return f"{number:08d}"


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


class Lake:
    """The tables under `root`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self.root = root.rstrip("/")

    # Bronze.

    def manifest(self) -> list[Entry]:
        """All files that have been ingested, in order of batch and file."""
        try:
            rows = self._spark.read.schema(MANIFEST).json(f"{self.root}/manifest").collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise
        entries = [Entry(**row.asDict()) for row in rows]
        return sorted(entries, key=lambda entry: (entry.batch, entry.file))

    def add(
        self, batch: str, records: DataFrame, digests: Mapping[str, str] | None = None
    ) -> list[Entry]:
        """Write `records` as `batch`, replacing what an interrupted attempt left; its entries.

        `digests` has the SHA-256 of each file by name. Raises LakeError if what was written is
        not as many records as the readers counted.
        """
        path = self._batch(BRONZE, batch)
        records.write.mode("overwrite").partitionBy("run", "status").parquet(path)
        entries = self._count(batch, path, digests or {})
        for entry in entries:
            if entry.records != entry.events + entry.quarantined:
                raise LakeError(
                    f"{entry.file}: {entry.records} records were read, but {entry.events} events "
                    f"and {entry.quarantined} quarantined records were written"
                )
        rows = [tuple(getattr(entry, name) for name in MANIFEST.names) for entry in entries]
        table = self._spark.createDataFrame(rows, MANIFEST).drop("batch").coalesce(1)
        table.write.mode("overwrite").json(self._batch("manifest", batch))
        return entries

    def _count(self, batch: str, path: str, digests: Mapping[str, str]) -> list[Entry]:
        written = self._spark.read.schema(RECORD).parquet(path)
        counted = (
            written.groupBy("run", "file")
            .agg(
                F.count_if(F.col("status") == "event").alias("events"),
                F.count_if(F.col("status") == "quarantined").alias("quarantined"),
                F.count_if((F.col("status") == "event") & F.col("late")).alias("late"),
                F.max("time").alias("latest"),
                F.max(F.when(F.col("status") == "file", F.col("detail"))).alias("books"),
            )
            .orderBy("file")
        )
        entries = []
        for row in counted.collect():
            books: dict[str, Any] = json.loads(row.books) if row.books else _NO_BOOKS
            entries.append(
                Entry(
                    batch=batch,
                    run=row.run,
                    file=row.file,
                    digest=digests.get(row.file, books.get("digest", "")),
                    bytes=books["bytes"],
                    format=books.get("format", "unknown"),
                    records=books["records"],
                    events=row.events,
                    quarantined=row.quarantined,
                    late=row.late,
                    latest=row.latest,
                    result=books.get("result"),
                )
            )
        return entries

    def records(self, runs: Sequence[str] | None = None) -> DataFrame:
        """The records of `runs`, by default of all. Raises LakeError where there are none."""
        entries = self.manifest()
        known = {entry.run for entry in entries}
        unknown = [run for run in runs or () if run not in known]
        if unknown or not entries:
            names = ", ".join(sorted(known)) or "none"
            wanted = f"run {', '.join(unknown)}" if unknown else "run"
            raise LakeError(f"no {wanted} in {self.root}; there are {names}")
        paths = sorted(
            {
                self._batch(BRONZE, entry.batch)
                for entry in entries
                if runs is None or entry.run in runs
            }
        )
        reader = self._spark.read.schema(RECORD).option("basePath", f"{self.root}/{BRONZE}")
        table = reader.parquet(*paths).select(*RECORD.names)
        return table if runs is None else table.where(F.col("run").isin(list(runs)))

    def events(self, runs: Sequence[str] | None = None) -> DataFrame:
        """The events among `records`, but for late ones of a stream."""
        table = self.records(runs)
        return table.where((F.col("status") == "event") & ~F.col("late")).drop("status", "detail")

    # Silver and gold.

    def write(self, layer: str, name: str, table: DataFrame, runs: Sequence[str]) -> DataFrame:
        """Write `table`, which has rows of `runs`, in place of what it had of them; other runs
        stay. Returns what is written of these runs."""
        path = f"{self.root}/{layer}/{name}"
        for run in runs:
            self._remove(f"{path}/run={self._escaped(run)}")
        table.write.mode("append").partitionBy("run").parquet(path)
        # Empty tables have no file that would tell.
        self._put(f"{path}/{_SCHEMA}", table.schema.json())
        return self.read(layer, name, runs)

    def read(self, layer: str, name: str, runs: Iterable[str] | None = None) -> DataFrame:
        """A table that was written. Raises LakeError where there is none."""
        path = f"{self.root}/{layer}/{name}"
        schema = self._get(f"{path}/{_SCHEMA}")
        if schema is None:
            raise LakeError(f"no table {name} in {self.root}/{layer}")
        typed = StructType.fromJson(json.loads(schema))
        table = self._spark.read.schema(typed).parquet(path).select(*typed.names)
        return table if runs is None else table.where(F.col("run").isin(list(runs)))

    def tables(self, layer: str) -> list[str]:
        """The tables that were written, by name."""
        system, path = self._file(f"{self.root}/{layer}")
        if not system.exists(path):
            return []
        return sorted(entry.getPath().getName() for entry in system.listStatus(path))

    # Live.

    def write_batch(self, name: str, run: str, number: int, table: DataFrame) -> DataFrame:
        """Write batch `number` of a stream's table `name`; what is written."""
        path = f"{self.root}/live/{name}"
        where = f"{path}/run={self._escaped(run)}/batch={batch_name(number)}"
        table.drop("run").write.mode("overwrite").parquet(where)
        self._put(f"{path}/{_SCHEMA}", table.schema.json())
        return self._spark.read.schema(table.schema).option("basePath", path).parquet(where)

    def read_batches(self, name: str, runs: Sequence[str]) -> DataFrame | None:
        """All batches of a stream's table, with `batch`; None if there is none."""
        path = f"{self.root}/live/{name}"
        schema = self._get(f"{path}/{_SCHEMA}")
        if schema is None:
            return None
        typed = StructType.fromJson(json.loads(schema)).add("batch", "string")
        table = self._spark.read.schema(typed).parquet(path)
        return table.where(F.col("run").isin(list(runs)))

    def checkpoint(self, run: str) -> str:
        """Where Spark remembers how far the stream of `run` is."""
        return f"{self.root}/checkpoints/{self._escaped(run)}"

    # Files, wherever Hadoop has them.

    def _file(self, path: str) -> tuple[Any, Any]:
        jvm: Any = self._spark._jvm
        found = jvm.org.apache.hadoop.fs.Path(path)
        return found.getFileSystem(self._spark._jsc.hadoopConfiguration()), found

    def _batch(self, layer: str, batch: str) -> str:
        return f"{self.root}/{layer}/batch={self._escaped(batch)}"

    def _escaped(self, name: str) -> str:
        jvm: Any = self._spark._jvm
        catalog = jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
        return str(catalog.escapePathName(name))

    def _remove(self, path: str) -> None:
        system, found = self._file(path)
        system.delete(found, True)

    def _put(self, path: str, text: str) -> None:
        system, found = self._file(path)
        stream = system.create(found, True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def _get(self, path: str) -> str | None:
        system, found = self._file(path)
        if not system.exists(found):
            return None
        stream = system.open(found)
        size = system.getFileStatus(found).getLen()
        text = bytes(stream.readNBytes(size)).decode()
        stream.close()
        return text
