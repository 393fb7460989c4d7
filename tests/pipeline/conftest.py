"""One Spark session for all tests here; without Spark they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from episub_router.pipeline import session

    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    started = session.start("local[2]", conf)
    yield started
    started.stop()
