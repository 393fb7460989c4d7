"""How fast traces become answers: python -m tests.benchmarks.pipeline --events 1000000 10000000

Makes the traces of a network in which each message reaches every node over a tree and twice more
(per message and node: three sends, three receipts, a delivery, two duplicates, an announcement
sent and received), with its links, one PB file per node, and takes them all the way, in a fresh
process for each size, and makes a report, twice. CPU seconds are user and system time of all
processes. The same per-message
query runs in DuckDB on the same Parquet, if `duckdb` is installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from episub_router.pb.trace_pb2 import TraceEvent

NODES = 1000
PER_DELIVERY = 11
EXTRA = (101, 211)
"""How far away in the tree's order the senders of the two copies in vain are."""
BEGIN = 1_700_000_000_000_000_000
INTERVAL = 100_000_000
HOP = 40_000_000
SKEWED = 50
"""Every so many nodes has a clock that is 200 ms ahead."""

DUCKDB = """
SELECT run, message, count(*) FILTER (event = 'deliver') AS deliveries,
       count(*) FILTER (event = 'duplicate') AS duplicates,
       quantile_disc(time, [0.5, 0.9, 0.99]) FILTER (event = 'deliver') AS times
FROM read_parquet('{lake}/bronze/*/*/*/*.parquet', hive_partitioning = true)
WHERE event IN ('deliver', 'duplicate') GROUP BY run, message
"""


def peer(node: int) -> bytes:
    return b"\x00\x24\x08\x01\x12\x20" + node.to_bytes(4, "big") * 8


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def write(node: int, directory: str, messages: int) -> None:
    """The trace of one node."""
    ids = [field(1, peer(m % NODES) + m.to_bytes(8, "big")) for m in range(messages)]
    topic = field(2, b"news")
    names = [peer(other) for other in range(NODES)]
    skew = 200_000_000 if node and node % SKEWED == 0 else 0
    before = b"\x12" + varint(len(names[node])) + names[node] + b"\x18"
    out: list[bytes] = []

    def add(kind: int, at: int, body: bytes) -> None:
        event = b"\x08" + bytes((kind,)) + before + varint(at + skew) + body
        out.append(varint(len(event)) + event)

    def rpc(kind: int, number: int, at: int, other: int, message: bytes) -> None:
        meta = field(1, message + topic)
        add(kind, at, field(number, field(1, names[other]) + field(2, meta)))

    def announcement(kind: int, number: int, at: int, other: int, message: bytes) -> None:
        ihave = field(1, field(1, b"news") + field(2, message[2:]))
        meta = field(3, ihave)
        add(kind, at, field(number, field(1, names[other]) + field(2, meta)))

    join = TraceEvent(type=TraceEvent.JOIN, peerID=names[node], timestamp=BEGIN + skew)
    join.join.topic = "news"
    raw = join.SerializeToString()
    out.append(varint(len(raw)) + raw)
    for far in (1, *EXTRA):
        for other in ((node + far) % NODES, (node - far) % NODES):
            add(4, BEGIN + far, field(8, field(1, names[other])))
            add(11, BEGIN + far + 1, field(15, field(1, names[other]) + field(2, b"news")))
    for m in range(messages):
        source = m % NODES
        place = (node - source) % NODES
        start = BEGIN + 20_000_000_000 + m * INTERVAL
        depth = 0
        above = place
        while above:
            above, depth = (above - 1) // 3, depth + 1
        arrived = start + depth * HOP + (node * 7919 + m * 104729) % 5_000_000
        from_whom = ((place - 1) // 3 + source) % NODES
        message = ids[m]
        body = message + topic
        if place == 0:
            arrived = start
            add(0, start, field(4, body))
            add(3, start, field(7, body + field(3, names[node])))
        else:
            rpc(6, 10, arrived - 1000, from_whom, message)
            add(3, arrived, field(7, body + field(3, names[from_whom])))
        for child in (3 * place + 1, 3 * place + 2, 3 * place + 3):
            if child < NODES:
                rpc(7, 11, arrived + 1000, (child + source) % NODES, message)
        announcement(7, 11, arrived + 3000, (node + 1) % NODES, message)
        announcement(6, 10, start + 9 * HOP, (node - 1) % NODES, message)
        for far in EXTRA:
            rpc(7, 11, arrived + 2000, (node + far) % NODES, message)
            late = start + 8 * HOP + far * 100_000
            rpc(6, 10, late, (node - far) % NODES, message)
            add(2, late + 500, field(6, message + field(2, names[(node - far) % NODES])
                                     + field(3, b"news")))  # fmt: skip
    Path(directory, f"node-{node:04d}.pb").write_bytes(b"".join(out))


def generate(directory: Path, events: int) -> int:
    """Traces with about `events` events; how many messages they have."""
    messages = max(1, round(events / NODES / PER_DELIVERY))
    directory.mkdir(parents=True)
    with multiprocessing.get_context("spawn").Pool() as pool:
        pool.starmap(write, [(node, str(directory), messages) for node in range(NODES)], 10)
    return messages


def resident() -> Iterator[tuple[str, int]]:
    """(command, bytes) of the children of this process and of theirs."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[str, int]] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, rest = (entry / "stat").read_text().rsplit(")", 1)
            parts = rest.split()
            parents[int(entry.name)] = int(parts[1])
            found[int(entry.name)] = (name.split("(", 1)[1], int(parts[21]) * page)
        except OSError:
            continue
    for pid, told in found.items():
        above = parents.get(pid, 0)
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        if above == os.getpid():
            yield told


def cpu_seconds() -> float:
    """User and system time of this process, of its children and theirs, living or reaped."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parts = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(parts[1])
            used[int(entry.name)] = sum(map(int, parts[11:15])) / tick
    total = 0.0
    for pid, seconds in used.items():
        above = pid
        while above not in (0, os.getpid()):
            above = parents.get(above, 0)
        total += seconds if above else 0.0
    return total


class Watch(threading.Thread):
    """The most memory that the JVM, and all Python processes together, had."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jvm = self.python = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            now = list(resident())
            self.jvm = max(self.jvm, sum(size for name, size in now if name == "java"))
            self.python = max(self.python, sum(size for name, size in now if name != "java"))

    def stop(self) -> None:
        self._over.set()
        self.join()


def stages(traces: str, lake: str, conf: dict[str, str]) -> None:
    """In the process that is measured: the whole way, a JSON line per stage."""
    from episub_router.pipeline import session
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer

    started = time.perf_counter()
    spark = session.start(None, conf)
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
    spark.read.parquet(f"{lake}/bronze").where("event IN ('deliver', 'duplicate')").groupBy(
        "run", "message"
    ).agg(
        *_query(),
    ).write.format("noop").mode("overwrite").save()
    print(json.dumps(["query", time.perf_counter() - started]), flush=True)


def _query() -> list[object]:
    from pyspark.sql import functions as F

    times = "percentile_disc({}) WITHIN GROUP (ORDER BY time) FILTER (WHERE event = 'deliver')"
    return [
        F.expr("count_if(event = 'deliver')"),
        F.expr("count_if(event = 'duplicate')"),
        *(F.expr(times.format(share)) for share in (0.5, 0.9, 0.99)),
    ]


def report(lake: str, place: str) -> float:
    """Seconds for a page and Markdown about the run, as a command of its own; the archive of
    Spark's classes is the user's."""
    command = [sys.executable, "-m", "episub_router", "report", "bench", "--lake", lake,
               "--out", f"{place}/bench.html", "--out", f"{place}/bench.md"]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def measure(events: int, conf: list[str], kept: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=kept) as place:
        started = time.perf_counter()
        messages = generate(Path(place, "traces"), events)
        size = sum(file.stat().st_size for file in Path(place, "traces").iterdir())
        print(
            f"\n{events:,} events wanted: {messages:,} messages, {NODES:,} nodes, "
            f"{size / 1e9:.2f} GB of PB, made in {time.perf_counter() - started:.0f} s"
        )
        watch = Watch()
        watch.start()
        command = [sys.executable, "-m", "tests.benchmarks.pipeline", "--stages",
                   f"{place}/traces", f"{place}/lake"]  # fmt: skip
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
            print(f"{name:18} {took:7.1f} s  {count / max(took, 1e-9):12,.0f} events/s")
        print(f"{'whole':18} {whole:7.1f} s  {count / whole:12,.0f} events/s  ({count:,} events)")
        for name, seconds in cpu.items():
            print(f"{name:18} {seconds:7.1f} s  {count / seconds:12,.0f} events per CPU second")
        for which in ("first", "second"):
            print(f"{which + ' report':18} {report(f'{place}/lake', place):7.1f} s")
        jvm, python = watch.jvm / 2**30, watch.python / 2**30
        print(f"memory at most: JVM {jvm:.2f} GiB, Python {python:.2f} GiB")
        print(f"per-message query on bronze: Spark {query:.2f} s", end="")
        try:
            import duckdb
        except ModuleNotFoundError:
            print()
            return
        started = time.perf_counter()
        duckdb.sql(DUCKDB.format(lake=f"{place}/lake")).fetchall()
        print(f", DuckDB {time.perf_counter() - started:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dir", type=Path, help="where there is room for traces and tables")
    parser.add_argument("--stages", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stages:
        stages(*arguments.stages, dict(pair.split("=", 1) for pair in arguments.conf))
        return
    for events in arguments.events:
        measure(events, arguments.conf, arguments.dir)


if __name__ == "__main__":
    main()
