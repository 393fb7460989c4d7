"""Spark's jobs: what they are called in its own pages, and Python functions as tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pyspark.sql import SparkSession

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


@contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """While in this context, jobs of this thread are called `what`."""
    context = spark.sparkContext
    context.setJobDescription(what)
    try:
        yield
    finally:
        context.setJobDescription(None)  # type: ignore[arg-type]


def in_tasks(
    spark: SparkSession, what: str, work: Callable[[_Item], _Made], items: Sequence[_Item]
) -> list[_Made]:
    """What `work` makes of each of `items`, a task for each; the job is called `what`. Raises
    SparkError where a task fails."""
    if not items:
        return []
    with described(spark, what):
        return spark.sparkContext.parallelize(list(items), len(items)).map(work).collect()
