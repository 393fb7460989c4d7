"""Python's part of the work: functions that run in Spark's tasks, or here where the data is small.

Sail is given no functions in Python: their protocol differs between PySpark's versions. What is
small is as well worked on in this process.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from episub_router.pipeline.session import is_for_little, works_here
from episub_router.pipeline.storage import at

KEPT_BYTES = 8 << 20
"""Rows that are handed to each task that needs them; more are read again. Chosen: a report's."""

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def in_one(table: DataFrame) -> DataFrame:
    """`table`, in one partition where it is little data (`session.FOR_LITTLE`): what follows from
    it is made in one stage then, as nothing has to be brought together."""
    return table.coalesce(1) if is_for_little(table.sparkSession) else table


def read(schema: StructType, spark: SparkSession, *places: str, base: str = "") -> DataFrame:
    """The Parquet files in the directories `places`, with what their paths below `base` say."""
    # As text: Sail keeps the notes on columns that a schema has, empty ones, too, and misses them
    # where a table has no rows.
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema)
    reader = spark.read.schema(columns).options(basePath=base or places[0])
    return in_one(reader.parquet(*places).select(*schema.names))


def write(table: DataFrame, place: str, *by: str) -> DataFrame | None:
    """Write `table` as Parquet to the directory `place`, where nothing is, in parts by columns. Of
    little data, what was written, if that isn't more than KEPT_BYTES."""
    if not is_for_little(table.sparkSession):
        table.write.partitionBy(*by).parquet(place)
        return None
    # A job that writes costs more than what it writes, and so does a plan that reads it.
    rows = table.toArrow()
    system, path = at(place)
    system.create_dir(path)
    ds.write_dataset(
        rows, path, format="parquet", filesystem=system, partitioning=list(by),
        partitioning_flavor="hive",
    )  # fmt: skip
    if rows.nbytes > KEPT_BYTES:
        return None
    return in_one(table.sparkSession.createDataFrame(rows, table.schema))


def grouped(
    table: DataFrame,
    key: Sequence[str],
    make: Callable[[pd.DataFrame], pd.DataFrame],
    schema: StructType,
) -> DataFrame:
    """What `make` makes, rows of `schema`, of the rows of each `key`."""
    spark = table.sparkSession
    if not works_here(spark):
        return table.groupBy(*key).applyInPandas(make, schema)
    rows: pd.DataFrame = table.toPandas()
    made = [make(part.reset_index(drop=True)) for _, part in rows.groupby(list(key), dropna=False)]
    wanted = to_arrow_schema(schema)
    parts = [pa.Table.from_pandas(part, wanted, preserve_index=False) for part in made]
    found = pa.concat_tables(parts) if parts else wanted.empty_table()
    return spark.createDataFrame(found.combine_chunks(), schema)


def in_tasks(
    spark: SparkSession, work: Callable[[_Item], _Made], items: Sequence[_Item]
) -> list[_Made]:
    """What `work` makes of each of `items`, a task for each. Raises SparkError where a task
    fails."""
    if not items:
        return []
    if works_here(spark):
        with ThreadPoolExecutor() as pool:
            return list(pool.map(work, items))

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            places = batch.column(0).to_pylist()
            made = [pickle.dumps(work(items[place])) for place in places]
            yield pa.RecordBatch.from_arrays(
                [pa.array(places, pa.int64()), pa.array(made, pa.binary())], ["id", "made"]
            )

    count = len(items)
    rows = spark.range(0, count, 1, count).mapInArrow(run, "id long, made binary").collect()
    return [pickle.loads(row["made"]) for row in sorted(rows, key=lambda row: row["id"])]
