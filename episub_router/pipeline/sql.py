"""Short forms for what most tables are made with."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from episub_router.pipeline.params import SECOND, AnswerParams


def grouped_by(table: DataFrame, key: Sequence[str], **figures: str) -> DataFrame:
    """A row for each `key` of `table`, with `figures`, name to expression."""
    return table.groupBy(*key).agg(*(F.expr(made).alias(name) for name, made in figures.items()))


def ranked(table: DataFrame, key: Sequence[str], value: str) -> DataFrame:
    """`table` with the `rank` of each `value`, nulls last, and the `count` of those of its key: for
    `at_rank`, exact, and sorted on disk where it must be."""
    of_key = Window.partitionBy(*key)
    rank = F.row_number().over(of_key.orderBy(F.col(value).asc_nulls_last()))
    return table.withColumns({"rank": rank, "count": F.count(value).over(of_key)})


def at_rank(value: str, share: float) -> str:
    """Of a table that is `ranked`, the `value` that at least this share doesn't exceed."""
    return f"max(CASE WHEN rank = greatest(ceil(count * {share}D), 1) THEN {value} END)"


def window_of(time: str, params: AnswerParams) -> Column:
    """The begin of the window that `time` is in, in ns."""
    # A division would be one of doubles, which haven't all the digits of times since 1970.
    return F.col(time) - F.pmod(time, F.lit(int(params.window * SECOND)))


def by_window(table: DataFrame, time: str, params: AnswerParams) -> DataFrame:
    """`table` twice: with the `window` of each row, and with null for the whole run."""
    both = F.array(window_of(time, params), F.lit(None).cast("long"))
    return table.withColumn("window", F.explode(both))


def beside(key: Sequence[str], *tables: DataFrame) -> DataFrame:
    """`tables`, each with at most one row for a key, as a full outer join of all has them, by one
    shuffle."""
    types = {field.name: field.dataType for table in tables for field in table.schema}
    rows = None
    for table in tables:
        there = set(table.columns)
        one = table.select(*(
            F.col(name) if name in there else F.lit(None).cast(kind).alias(name)
            for name, kind in types.items()
        ))  # fmt: skip
        rows = one if rows is None else rows.unionByName(one)
    assert rows is not None
    # Beside the one row that has a figure there are nulls.
    return rows.groupBy(*key).agg(*(F.max(name).alias(name) for name in types if name not in key))


_TYPES = {
    "string": StringType(), "long": LongType(), "double": DoubleType(),
    "strings": ArrayType(StringType()), "longs": ArrayType(LongType()),
}  # fmt: skip


def schema_of(columns: str) -> StructType:
    """A schema from names, and behind some of them the type that they have."""
    fields, names = [], list[str]()
    for word in columns.split():
        if word in _TYPES:
            fields += [StructField(name, _TYPES[word]) for name in names]
            names = []
        else:
            names.append(word)
    return StructType(fields)
