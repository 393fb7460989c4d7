"""A standalone cluster of one master and two workers, of which one is killed; spark-submit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.routers.settings import GossipsubConfig
from episub_router.sim.runner import Job, run
from episub_router.sim.scenario.settings import Scenario, TrafficConfig
from tests import children

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


def daemon(
    *command: str, directory: str, stack: ExitStack
) -> tuple[subprocess.Popen[bytes], Iterator[str]]:
    """A class of Spark's, started by the script of the pip package, and its log line by line."""
    pyspark = pytest.importorskip("pyspark")
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    log = Path(directory, f"{command[0].rsplit('.', 1)[-1]}-{os.urandom(4).hex()}.log")
    with log.open("wb") as out:
        running = children.child(
            [str(script), *command], stdout=out, stderr=out, cwd=directory,
            env={**ENVIRONMENT, "SPARK_DAEMON_MEMORY": "256m"},
        )  # fmt: skip
        process = stack.enter_context(running)
    return process, _follow(process, log)


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


_SWEPT = """
import sys
from episub_router.pipeline import session
from episub_router.pipeline.lake import SILVER, Lake
from episub_router.pipeline.params import AnswerParams
from episub_router.pipeline.run import Tables
from episub_router.pipeline.sweep import sweep
from tests.pipeline.test_cluster import CONF, jobs

spark = session.start(sys.argv[1], CONF)
lake = Lake(spark, sys.argv[2])
done = sweep(spark, lake, jobs())
runs = [entry.run for _, entry in done]
tables = Tables({"records": lake.records(runs)}, AnswerParams())
written = tables.kept(
    ("clocks", "publishes", "deliveries"),
    lambda name, table: lake.write(SILVER, name, table, runs),
)
print(*written)
for row in tables("deliveries").where("NOT origin").groupBy("run").count().collect():
    print("deliveries", row.run, row[1])
spark.stop()
"""

CONF = {
    # Both workers are waited for.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def jobs() -> list[Job]:
    """Some for each of two workers, so that both are at work after the first one is done."""
    made = Scenario(
        name="small", network=NetworkConfig(nodes=20), router=GossipsubConfig(),
        traffic=TrafficConfig(messages=20, start=10.0),
    )  # fmt: skip
    return [Job("", made, seed) for seed in range(1, 11)]


@pytest.fixture
def cluster() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The URL of a master with two workers of one core each, and one of these."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        _, log = daemon(
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
        for _, worker_log in workers:
            found(r"(Successfully registered) with master", worker_log)
        yield url, workers[0][0]


@pytest.mark.timeout(600)
def test_a_sweep_outlives_a_worker(
    cluster: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """When one run is in the lake, one of the two workers is killed; all runs get there, each once
    and as run here, and facts are made of them."""
    master, worker = cluster
    manifest = tmp_path / "lake" / "manifest"
    with children.child(
        [sys.executable, "-c", _SWEPT, master, str(tmp_path / "lake")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    ) as process:  # fmt: skip
        while not list(manifest.glob("*/entries.json")):
            # Nothing else tells that a run is there.
            with suppress(subprocess.TimeoutExpired):
                assert process.wait(0.05) is None, process.communicate()
        assert len(list(manifest.glob("*/entries.json"))) < len(jobs())
        # With the executor that it has started.
        children.kill(worker)
        told, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-3000:]
    entries = [
        json.loads(line)
        for path in manifest.glob("*/entries.json")
        for line in path.read_text().splitlines()
    ]
    pytest.importorskip("pyspark")
    from episub_router.pipeline.sweep import run_name

    wanted = {}
    for job in jobs():
        result = json.loads(run(job.scenario, job.seed).to_json())
        wanted[run_name(job)] = result
    assert {entry["run"]: json.loads(entry["result"]) for entry in entries} == wanted
    assert len(entries) == len(wanted)
    lines = [line.split() for line in told.splitlines() if line.startswith("deliveries")]
    assert {name: int(count) for _, name, count in lines} == {
        name: result["phases"][0]["deliveries"] for name, result in wanted.items()
    }


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
