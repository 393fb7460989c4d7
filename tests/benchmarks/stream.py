"""How old a stream's answers are: python -m tests.benchmarks.stream --rate 10000 --seconds 600

One process appends finished trace files of a network (`invented`) as its nodes would rotate them,
with as many events a second as wanted, beside `episub pipeline stream`. The age of the answers is,
at each moment, how long ago the oldest event happened that they lack: files are written after the
fact, so it is at least what nodes rotate their files after. In the end all that was written has to
be in the lake, and no delivery may lack in the answers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks.invented import PER_DELIVERY, Network
from tests.benchmarks.processes import Watch, cpu_seconds

RUN = "bench"
_LOOK = 0.25
_READY = 300.0
"""Seconds for the stream to begin."""
_AFTER = 300.0
"""Seconds for the answers to catch up after the last file."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is written: events a second, for so many seconds, by so many nodes, each of which
    rotates its file every `rotate` seconds."""

    rate: int
    seconds: float
    nodes: int
    rotate: float

    @property
    def rounds(self) -> int:
        return max(1, round(self.seconds / self.rotate))

    @property
    def messages(self) -> int:
        """In one round."""
        return max(1, round(self.rate * self.rotate / self.nodes / PER_DELIVERY))

    @property
    def events(self) -> int:
        """In one round but the first."""
        return self.messages * (self.nodes * PER_DELIVERY)


def name_of(node: int, number: int) -> str:
    return f"node-{node:04d}-{number:06d}.pb"


def write(load: Load, directory: str, begin: int) -> None:
    """The traces from `begin` (ns since 1970) on, each round's when it is over."""
    network = Network(load.nodes)
    length = int(load.rotate * 1e9)
    for number in range(load.rounds):
        start = begin + number * length
        step = length // load.messages
        first = number * load.messages
        published = [(first + k, start + k * step) for k in range(load.messages)]
        traces = [network.spreading(node, published) for node in range(load.nodes)]
        if number == 0:
            traces = [network.joining(node, begin) + traces[node] for node in range(load.nodes)]
        # What follows from the round's last messages is in its files, too.
        time.sleep(max(0.0, (start + length + network.longest) / 1e9 - time.time()))
        for node, trace in enumerate(traces):
            path = Path(directory, name_of(node, number))
            unfinished = path.with_suffix(".tmp")
            unfinished.write_bytes(trace)
            unfinished.rename(path)


class Answers:
    """Which rounds the stream has answered, from its lake."""

    def __init__(self, lake: Path, load: Load) -> None:
        self._lake = lake
        self._lacking = [load.nodes] * load.rounds
        self._read: set[str] = set()
        self.batch: int | None = None
        self.events = self.late = 0
        self.answered = 0
        """Rounds that are all answered, up to the first one that isn't."""

    def look(self) -> bool:
        """Whether there are new answers."""
        try:
            text = Path(self._lake, f"live/progress/run={RUN}/progress.json").read_text()
        except FileNotFoundError:
            return False
        batch = json.loads(text)["batch"]
        if batch == self.batch:
            return False
        self.batch = batch
        for directory in Path(self._lake, "manifest").iterdir():
            if directory.name in self._read or int(directory.name.rsplit("-", 1)[1]) > batch:
                continue
            self._read.add(directory.name)
            for line in (directory / "entries.json").read_text().splitlines():
                entry = json.loads(line)
                self.events += entry["events"]
                self.late += entry["late"]
                self._lacking[int(Path(entry["file"]).stem.rsplit("-", 1)[1])] -= 1
        while self.answered < len(self._lacking) and not self._lacking[self.answered]:
            self.answered += 1
        return True


def deliveries(lake: Path) -> tuple[int, int]:
    """Peers that messages were for in the answers of all batches, and those that have them."""
    import pyarrow.dataset as ds

    expected = came = 0
    last = max(lake.glob(f"live/messages/run={RUN}/batch=*"))
    for part in (*lake.glob(f"live/messages/run={RUN}/batch=*/closed=true"), last / "closed=false"):
        if part.is_dir():
            table = ds.dataset(part, format="parquet").to_table(columns=["live", "delivered"])
            expected += sum(table["live"].to_pylist())
            came += sum(table["delivered"].to_pylist())
    return expected, came


def measure(
    load: Load, lateness: float, engine: str, more: list[str], place: Path
) -> dict[str, Any]:
    traces, lake = place / "traces", place / "lake"
    traces.mkdir()
    command = [sys.executable, "-m", "episub_router", "pipeline", "stream", str(traces),
               "--run", RUN, "--lake", str(lake), "--lateness", str(lateness), "--engine", engine,
               *more]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    watch = Watch()
    # What an engine says when it is interrupted is nobody's concern.
    said = place / "said"
    with said.open("wb") as out:
        query = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment)
    writer = None
    try:
        # Traces begin when the stream does, so that its start is no part of the ages.
        until = time.time() + _READY
        while not said.stat().st_size:
            if query.poll() is not None or time.time() > until:
                raise SystemExit("the stream didn't start")
            time.sleep(_LOOK)
        watch.start()
        begin = time.time_ns()
        writer = multiprocessing.get_context("spawn").Process(
            target=write, args=(load, str(traces), begin)
        )
        before, began = cpu_seconds(), time.time()
        writer.start()
        answers = Answers(lake, load)
        ages: list[float] = []
        batches: list[tuple[float, float]] = []
        end = began + load.rounds * load.rotate
        seen = began
        cpu = 0.0
        while answers.answered < load.rounds and time.time() < end + _AFTER:
            if query.poll() is not None:
                raise SystemExit(f"the stream ended with {query.returncode}")
            now = time.time()
            if answers.look():
                batches.append((now - began, now - seen))
                seen = now
            if now < end:
                # Until the first round has happened, there is nothing to lack.
                ages.append(now - began - answers.answered * load.rotate)
                cpu = cpu_seconds() - before
            time.sleep(_LOOK)
        behind = time.time() - end
        if not batches:
            raise SystemExit(f"no answers within {time.time() - began:.0f} s")
        return {
            "ages": ages, "batches": batches, "cpu": cpu, "behind": behind,
            "answered": answers.answered, "events": answers.events, "late": answers.late,
            "jvm": watch.jvm, "python": watch.python, "deliveries": deliveries(lake),
        }  # fmt: skip
    finally:
        if watch.is_alive():
            watch.stop()
        if writer is not None and writer.is_alive():
            writer.terminate()
        query.send_signal(signal.SIGINT)
        try:
            query.wait(60)
        except subprocess.TimeoutExpired:
            query.kill()
            query.wait()


def fields(load: Load, done: dict[str, Any]) -> dict[str, Any]:
    ages = sorted(done["ages"])
    expected, came = done["deliveries"]
    return {
        "events": done["events"], "seconds": load.rounds * load.rotate, "nodes": load.nodes,
        "age_p50_s": median(ages), "age_p90_s": ages[int(0.9 * len(ages))], "age_max_s": ages[-1],
        "cores": done["cpu"] / (load.rounds * load.rotate), "late": done["late"],
        "expected": expected, "came": came, "jvm_gib": done["jvm"] / 2**30,
        "python_gib": done["python"] / 2**30,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=10_000, help="events a second")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rotate", type=float, default=5.0, help="seconds in a file")
    parser.add_argument("--lateness", type=float, default=30.0, help="the stream's, in seconds")
    parser.add_argument("--engine", choices=("spark", "sail"), default="sail")
    parser.add_argument("--dir", type=Path, help="where there is room for traces and tables")
    parser.add_argument("more", nargs="*", help="arguments for the stream, after --")
    arguments = parser.parse_args()
    load = Load(arguments.rate, arguments.seconds, arguments.nodes, arguments.rotate)
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        done = measure(load, arguments.lateness, arguments.engine, arguments.more, Path(place))
    print(json.dumps({"engine": arguments.engine, **fields(load, done)}))
    expected, came = done["deliveries"]
    whole = done["answered"] == load.rounds and not done["late"] and came == expected
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
