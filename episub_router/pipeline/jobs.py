"""Python functions as Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def in_tasks(
    spark: SparkSession, what: str, work: Callable[[_Item], _Made], items: Sequence[_Item]
) -> list[_Made]:
    """What `work` makes of each of `items`, a task for each; the job is called `what` in Spark's
    own pages. Raises SparkError where a task fails."""
    if not items:
        return []
    context = spark.sparkContext
    context.setJobDescription(what)
    try:
        return context.parallelize(list(items), len(items)).map(work).collect()
    finally:
        context.setJobDescription(None)  # type: ignore[arg-type]
