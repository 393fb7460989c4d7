"""The command line, here and on a standalone cluster of one master and two workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import children
from tests.pipeline.files import write_star

pytestmark = pytest.mark.spark_processes

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.getcwd(),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    # These JVMs don't live long enough for the second compiler to pay.
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def episub(*arguments: str) -> subprocess.CompletedProcess[str]:
    return children.run(
        [sys.executable, "-m", "episub_router", *arguments],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=500,
    )  # fmt: skip


def daemon(*command: str, directory: str, stack: ExitStack) -> Iterator[str]:
    """A class of Spark's, started by the script of the pip package; its log line by line."""
    pyspark = pytest.importorskip("pyspark")
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = Path(directory, f"{command[0].rsplit('.', 1)[-1]}-{os.urandom(4).hex()}.log")
    with log.open("wb") as out:
        running = children.child(
            [str(script), *command], stdout=out, stderr=out, cwd=directory,
            env={**ENVIRONMENT, "SPARK_DAEMON_MEMORY": "256m"},
        )  # fmt: skip
        process = stack.enter_context(running)
    return _follow(process, log)


def _follow(process: subprocess.Popen[bytes], log: Path) -> Iterator[str]:
    with log.open() as lines:
        while process.poll() is None:
            line = lines.readline()
            if line:
                yield line
            else:
                # The log is a file, which can't be waited for but by looking again.
                try:
                    process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue


def found(pattern: str, log: Iterator[str]) -> str:
    for line in log:
        match = re.search(pattern, line)
        if match:
            return match[1]
    raise AssertionError(f"{pattern!r} is not in the log")


@pytest.fixture(scope="module")
def master() -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        log = daemon(
            f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0",
            "--webui-port", "0", directory=directory, stack=stack,
        )  # fmt: skip
        url = found(r"Starting Spark master at (spark://\S+)", log)
        workers = [
            daemon(
                f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
                "--cores", "1", "--memory", "600m", "--work-dir", directory, url,
                directory=directory, stack=stack,
            )
            for _ in range(2)
        ]  # fmt: skip
        for worker_log in workers:
            found(r"(Successfully registered) with master", worker_log)
        yield url


@pytest.mark.timeout(600)
def test_on_a_cluster(master: str, tmp_path: Path) -> None:
    traces, lake = tmp_path / "star", tmp_path / "lake"
    count = write_star(traces)
    done = episub(
        "pipeline", "ingest", str(traces), "--lake", str(lake), "--answers",
        "--master", master, "--conf", "spark.executor.memory=512m",
        "--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=1",
        "--conf", "spark.sql.codegen.wholeStage=false",
        "--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN",
        "--conf", "spark.sql.adaptive.enabled=false",
        "--conf", "spark.sql.lightweightPlanChangeValidation=false",
        "--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"4 files added, 0 were there: {count} events, 0 records quarantined" in done.stdout
    assert re.search(r"star +news +10 +100\.0000% +20\.0 ms", done.stdout)


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    wrong = episub("pipeline", "ingest", "x", "--lake", str(tmp_path), "--conf", "nonsense")
    assert wrong.returncode == 1
    assert wrong.stderr == "episub: --conf 'nonsense': must be key=value\n"


def test_what_spark_submit_was_given_holds(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    script = tmp_path / "asks.py"
    script.write_text(
        "from episub_router.pipeline import session\n"
        "spark = session.start(conf={'spark.app.name': 'ours'})\n"
        "conf = spark.sparkContext.getConf()\n"
        "for name in ('master', 'app.name', 'sql.shuffle.partitions', 'ui.enabled'):\n"
        "    print(conf.get(f'spark.{name}'))\n"
        "spark.stop()\n"
    )
    done = children.run(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            "--master", "local[1]", "--driver-memory", "512m", "--name", "theirs",
            "--conf", "spark.sql.shuffle.partitions=7", str(script),
        ],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["local[1]", "ours", "7", "false"]
