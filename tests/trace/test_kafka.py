"""Traces out of Kafka: every event once, whatever is killed; and with a real broker."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from episub_router.pb.trace_pb2 import TraceEvent, TraceEventBatch
from episub_router.trace.kafka import KafkaCollector
from episub_router.trace.params import CollectorParams
from tests import children
from tests.docs.snippets import ROOT
from tests.trace.samples import events_of, sample_events

EVENTS = sample_events(90, seed=6)
PARAMS = CollectorParams(max_age=10.0)


def value(events: list[TraceEvent]) -> bytes:
    return TraceEventBatch(batch=events).SerializeToString()


def written(directory: Path) -> list[TraceEvent]:
    """What is in the finished files, in order of their names."""
    return events_of(*sorted(directory.glob("*.pb")))


class Partition(NamedTuple):
    topic: str
    partition: int


class Record(NamedTuple):
    offset: int
    value: bytes | None


class Broker:
    """A topic of some partitions, and a consumer of it; it has no records before `begin`."""

    def __init__(self, *logs: list[bytes | None], begin: int = 0) -> None:
        self.logs, self.begin = logs, begin
        self.at: dict[Partition, int] = {}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(len(self.logs))) if topic == "t" else None

    def assign(self, partitions: list[Partition]) -> None:
        self.at = dict.fromkeys(partitions, 0)

    def beginning_offsets(self, partitions: list[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, self.begin)

    def seek(self, partition: Partition, offset: int) -> None:
        self.at[partition] = offset

    def poll(self, timeout_ms: int = 0) -> dict[Partition, list[Record]]:
        found: defaultdict[Partition, list[Record]] = defaultdict(list)
        for name, at in self.at.items():
            for offset in range(at, min(at + 2, len(self.logs[name.partition]))):
                found[name].append(Record(offset, self.logs[name.partition][offset]))
                self.at[name] = offset + 1
        return found


def test_each_event_once_whatever_is_killed(tmp_path: Path) -> None:
    """Also when files have gone that the stream has taken."""
    values: list[bytes | None] = [value(EVENTS[at : at + 10]) for at in range(0, 60, 10)]
    now = 0.0

    def collector() -> KafkaCollector:
        return KafkaCollector(tmp_path, Broker(values), "t", Partition, PARAMS, lambda: now)

    first = collector()
    first.step()
    now = 11.0
    first.step()
    assert written(tmp_path) == EVENTS[:40]
    first.step()
    # It is killed with two records in an unfinished file.
    assert len(list(tmp_path.glob("*.tmp"))) == 1
    second = collector()
    second.step()
    second.close()
    assert written(tmp_path) == EVENTS[:60]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "_offsets.json",
        f"t-0.{0:020}-{4:020}.pb",
        f"t-0.{4:020}-{6:020}.pb",
    ]
    for path in tmp_path.glob("*.pb"):
        path.unlink()
    third = collector()
    third.step()
    third.close()
    assert written(tmp_path) == []


def test_what_is_no_batch_is_counted(tmp_path: Path) -> None:
    logs = [[b"\xff", value(EVENTS[:3]), None, value(EVENTS[3:4])], [value(EVENTS[4:6])]]
    collector = KafkaCollector(tmp_path, Broker(*logs), "t", Partition)
    for _ in range(3):
        collector.step()
    collector.close()
    assert written(tmp_path) == EVENTS[:6]
    counts = collector.counts
    assert (counts.records, counts.events, counts.broken) == (5, 6, 1)
    later = KafkaCollector(tmp_path, Broker(*logs, begin=9), "t", Partition)
    assert later.counts.expired == 5 + 8
    with pytest.raises(LookupError, match="no topic u"):
        KafkaCollector(tmp_path, Broker(), "u", Partition)


def test_topics_side_by_side_keep_their_offsets(tmp_path: Path) -> None:
    for topic in ("u", "t"):
        broker = Broker([value(EVENTS[:3])])
        broker.partitions_for_topic = lambda topic: {0}  # type: ignore[method-assign]
        collector = KafkaCollector(tmp_path, broker, topic, Partition)
        collector.step()
        collector.close()
    noted = json.loads((tmp_path / "_offsets.json").read_text())
    assert noted == {"u": {"0": 1}, "t": {"0": 1}}


@pytest.mark.parametrize(
    "noted",
    [b'{"t": {"0": 4', b"\xff\xfe", b"[]", b'{"t": 4}', b'{"t": {"0": "4"}}', b'{"t": {"x": 4}}'],
)
def test_damaged_notes_end_in_one_line(
    noted: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from episub_router.cli.main import main

    (tmp_path / "_offsets.json").write_bytes(noted)
    library, errors = ModuleType("kafka"), ModuleType("kafka.errors")
    library.KafkaConsumer = lambda **given: Broker([])  # type: ignore[attr-defined]
    library.TopicPartition = Partition  # type: ignore[attr-defined]
    errors.KafkaError = ConnectionError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kafka", library)
    monkeypatch.setitem(sys.modules, "kafka.errors", errors)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    assert main(["trace", "collect", str(tmp_path), "--kafka", "here:1", "--topic", "t"]) == 1
    told = capsys.readouterr().err
    assert re.fullmatch(r"episub: .*_offsets\.json is damaged \(.*\): remove it.*\n", told)
    assert (tmp_path / "_offsets.json").read_bytes() == noted


# With a real one.

JARS = ROOT / "build" / "kafka"
_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}/data
offsets.topic.replication.factor=1
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The address of a broker in KRaft mode."""
    pytest.importorskip("kafka")
    if not JARS.is_dir() or shutil.which("java") is None:
        pytest.skip("the broker is not there: run `make kafka`")
    here = ("127.0.0.1", 0)
    with socket.create_server(here) as one, socket.create_server(here) as two:
        port, controller = one.getsockname()[1], two.getsockname()[1]
    config = tmp_path / "server.properties"
    config.write_text(_SERVER.format(port=port, controller=controller, directory=tmp_path))
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*"]
    about = ["-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(config)]
    children.run([*java, "kafka.tools.StorageTool", "format", *about], check=True, timeout=60)
    with children.child(
        [*java, "kafka.Kafka", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ):
        yield f"127.0.0.1:{port}"


def producer(address: str) -> Any:
    """One that is connected: the broker takes a while to begin."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    while True:
        with suppress(KafkaError):
            return KafkaProducer(bootstrap_servers=address)


def collect(address: str, directory: Path, *, after: int) -> int:
    """Run the collector until it has `after` events in its files, and interrupt it; how many it
    says."""
    command = [
        sys.executable, "-m", "episub_router", "trace", "collect", str(directory),
        "--kafka", address, "--topic", "traces",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with children.child(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("* reading traces")
        found = 0
        while found < after:
            with suppress(FileNotFoundError):
                files = [path for path in directory.iterdir() if not path.name.startswith("_")]
                found = len(events_of(*files))
        process.send_signal(signal.SIGINT)
        told = process.stdout.read()
        assert process.wait(60) == 0
    counted = re.search(r"(\d+) events", told)
    assert counted is not None
    return int(counted[1])


@pytest.mark.kafka
@pytest.mark.timeout(200)
def test_a_real_broker(broker: str, tmp_path: Path) -> None:
    directory = tmp_path / "traces"
    sending = producer(broker)
    for at in range(0, 60, 10):
        sending.send("traces", value(EVENTS[at : at + 10]), partition=0).get(60)
    assert collect(broker, directory, after=60) == 60
    for at in range(60, 90, 10):
        sending.send("traces", value(EVENTS[at : at + 10]), partition=0).get(60)
    assert collect(broker, directory, after=90) == 30
    assert written(directory) == EVENTS
    sending.close()
