"""How fast traces become answers: python -m tests.benchmarks.pipeline --events 1000000 10000000

Makes the traces of a network (`invented`) with its links, payloads and control messages, one PB
file per node, takes them all the way, in a fresh process for each size, and makes a report, twice.
`--engine sail` does it without Spark. CPU seconds are user and system time of all processes. The
same per-message query runs in DuckDB on the same Parquet, if `duckdb` is installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.benchmarks.invented import PER_DELIVERY, Network
from tests.benchmarks.processes import Watch, cpu_seconds

NODES = 1000
BEGIN = 1_700_000_000_000_000_000
FIRST = BEGIN + 20_000_000_000
INTERVAL = 100_000_000


def write(node: int, directory: str, messages: int) -> None:
    """The trace of one node."""
    network = Network(NODES)
    published = ((m, FIRST + m * INTERVAL) for m in range(messages))
    trace = network.joining(node, BEGIN) + network.spreading(node, published)
    Path(directory, f"node-{node:04d}.pb").write_bytes(trace)


def generate(directory: Path, events: int) -> int:
    """Traces with about `events` events; how many messages they have."""
    messages = max(1, round(events / NODES / PER_DELIVERY))
    directory.mkdir(parents=True)
    with multiprocessing.get_context("spawn").Pool() as pool:
        pool.starmap(write, [(node, str(directory), messages) for node in range(NODES)], 10)
    return messages


def stages(traces: str, lake: str, engine: str, conf: dict[str, str]) -> None:
    """In the process that is measured: the whole way, a JSON line per stage."""
    from episub_router.pipeline import session
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer

    started = time.perf_counter()
    size = sum(file.stat().st_size for file in Path(traces).iterdir())
    spark = session.start(None, session.settings_for(size) | conf, engine)
    print(json.dumps(["start", time.perf_counter() - started]), flush=True)
    table = Lake(spark, lake)
    started, before = time.perf_counter(), cpu_seconds()
    done = ingest(spark, table, [traces], "bench")
    print(json.dumps(["bronze", time.perf_counter() - started]), flush=True)
    print(json.dumps(["cpu of bronze", cpu_seconds() - before]), flush=True)
    print(json.dumps(["events", done.events]), flush=True)
    before = cpu_seconds()
    for name, took in answer(table, AnswerParams()):
        print(json.dumps([name, took]), flush=True)
    print(json.dumps(["cpu of the answers", cpu_seconds() - before]), flush=True)
    print(json.dumps(["cpu", cpu_seconds()]), flush=True)
    started = time.perf_counter()
    rows = spark.read.parquet(f"{lake}/bronze").where("event IN ('deliver', 'duplicate')")
    rows.groupBy("run", "message").agg(*_query()).toArrow()
    print(json.dumps(["query", time.perf_counter() - started]), flush=True)
    spark.stop()


def _query() -> list[object]:
    from pyspark.sql import functions as F

    times = "percentile_disc({}) WITHIN GROUP (ORDER BY time) FILTER (WHERE event = 'deliver')"
    return [
        F.expr("count_if(event = 'deliver')"),
        F.expr("count_if(event = 'duplicate')"),
        *(F.expr(times.format(share)) for share in (0.5, 0.9, 0.99)),
    ]


def report(lake: str, place: str, engine: str) -> float:
    """Seconds for a page and Markdown about the run, as a command of its own."""
    command = [
        *(sys.executable, "-m", "episub_router", "report", "bench", "--lake", lake),
        *("--engine", engine, "--out", f"{place}/bench.html", "--out", f"{place}/bench.md"),
    ]
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def measure(events: int, engine: str, conf: list[str], kept: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=kept) as place:
        started = time.perf_counter()
        messages = generate(Path(place, "traces"), events)
        size = sum(file.stat().st_size for file in Path(place, "traces").iterdir())
        say = partial(print, file=sys.stderr)
        say(
            f"\n{events:,} events wanted: {messages:,} messages, {NODES:,} nodes, "
            f"{size / 1e9:.2f} GB of PB, made in {time.perf_counter() - started:.0f} s"
        )
        watch = Watch()
        watch.start()
        command = [sys.executable, "-m", "tests.benchmarks.pipeline", "--stages",
                   f"{place}/traces", f"{place}/lake", engine]  # fmt: skip
        for pair in conf:
            command += ["--conf", pair]
        started = time.perf_counter()
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        whole = time.perf_counter() - started
        watch.stop()
        told = dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))
        count = told.pop("events")
        query = told.pop("query")
        cpu = {name: told.pop(name) for name in list(told) if name.startswith("cpu")}
        whole -= query
        for name, took in told.items():
            say(f"{name:18} {took:7.1f} s  {count / max(took, 1e-9):12,.0f} events/s")
        say(f"{'whole':18} {whole:7.1f} s  {count / whole:12,.0f} events/s  ({count:,} events)")
        for name, seconds in cpu.items():
            say(f"{name:18} {seconds:7.1f} s  {count / seconds:12,.0f} events per CPU second")
        reports = [report(f"{place}/lake", place, engine) for _ in range(2)]
        say(f"{'first report':18} {reports[0]:7.1f} s\n{'second report':18} {reports[1]:7.1f} s")
        row = {
            "engine": engine, "events": count, "seconds": whole, "bronze_s": told["bronze"],
            "cpu_s": cpu["cpu"],
            "bronze_rate": count / cpu["cpu of bronze"], "query_s": query,
            "report_s": reports[1], "gib": watch.both / 2**30, "jvm_gib": watch.jvm / 2**30,
        }  # fmt: skip
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dir", type=Path, help="where there is room for traces and tables")
    parser.add_argument("--engine", choices=("spark", "sail"), default="spark")
    parser.add_argument("--stages", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stages:
        stages(*arguments.stages, dict(pair.split("=", 1) for pair in arguments.conf))
        return
    for events in arguments.events:
        measure(events, arguments.engine, arguments.conf, arguments.dir)


if __name__ == "__main__":
    main()
