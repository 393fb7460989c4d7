"""Figures of the same things, out of several tables, side by side."""

from __future__ import annotations

from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def beside(key: tuple[str, ...], *tables: DataFrame) -> DataFrame:
    """`tables`, each with at most one row for a key, as a full outer join of all has them. It costs
    one shuffle in place of one each, and much less planning."""
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    rows = reduce(union, tables)
    # Beside the one row that has a figure there are nulls.
    return rows.groupBy(*key).agg(
        *(F.max(name).alias(name) for name in rows.columns if name not in key)
    )
