"""Traces out of a Kafka topic: trace files in a directory, which the pipeline's stream follows.

The value of each record is a `TraceEventBatch`. Every event is in one finished file once, whatever
is killed: a file's name says which offsets it has, and the next collector goes on behind the last
of them; what was unfinished is read again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from episub_router.pb.trace_pb2 import TraceEventBatch
from episub_router.trace.output import TraceOutput
from episub_router.trace.params import CollectorParams

_OFFSETS = "_offsets.json"
"""Where partitions are to go on, for when files have been removed that were taken. Spark passes
over files with such names."""

_POLL = 1000
"""Milliseconds that are waited for records."""


class Consumer(Protocol):
    """What is needed of kafka-python's `KafkaConsumer`."""

    def partitions_for_topic(self, topic: str) -> set[int] | None: ...

    def assign(self, partitions: list[Any]) -> None: ...

    def beginning_offsets(self, partitions: list[Any]) -> Mapping[Any, int]: ...

    def seek(self, partition: Any, offset: int) -> None: ...

    def poll(self, timeout_ms: int = 0) -> Mapping[Any, Iterable[Any]]: ...


@dataclass(slots=True)
class KafkaCounts:
    """What a collector did so far."""

    records: int = 0
    events: int = 0
    broken: int = 0
    """Records with something else in them than a batch."""
    expired: int = 0
    """Offsets that the broker had no more."""


@dataclass(slots=True)
class _Part:
    """A file that is being written, with records from `first` up to, but not with, `end`."""

    output: TraceOutput
    first: int
    end: int


@dataclass(slots=True)
class KafkaCollector:
    """Writes the events of `topic` to `directory`, which is made if it isn't there.

    `partition` makes a partition's name of topic and number (`kafka.TopicPartition`). `step` is to
    be called again and again, and `close` at the end. Raises LookupError where there is no such
    topic, ValueError where the directory's own notes are damaged, and OSError for what can't be
    written: a collector that comes after it loses nothing.
    """

    directory: Path
    consumer: Consumer
    topic: str
    partition: Callable[[str, int], Any]
    params: CollectorParams = field(default_factory=CollectorParams)
    clock: Callable[[], float] = time.monotonic
    counts: KafkaCounts = field(default_factory=KafkaCounts)
    _parts: dict[int, _Part] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)
    """Of each partition, where the finished files end."""
    _of_other_topics: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        numbers = sorted(self.consumer.partitions_for_topic(self.topic) or ())
        if not numbers:
            raise LookupError(f"there is no topic {self.topic}")
        self._ends = self._finished_ends()
        named = {number: self.partition(self.topic, number) for number in numbers}
        self.consumer.assign(list(named.values()))
        earliest = self.consumer.beginning_offsets(list(named.values()))
        for number, name in named.items():
            end = self._ends.get(number, 0)
            if number in self._ends and end < earliest[name]:
                self.counts.expired += earliest[name] - end
            self.consumer.seek(name, max(end, earliest[name]))
            self._growing(number).unlink(missing_ok=True)

    def step(self) -> None:
        """Take what is there, and finish the files that are large or old enough."""
        for name, records in self.consumer.poll(timeout_ms=_POLL).items():
            for record in records:
                self._take(name.partition, record.offset, record.value or b"")
        for number, part in list(self._parts.items()):
            if part.output.is_complete(self.params):
                self._finish(number)

    def close(self) -> None:
        """Finish all files."""
        for number in list(self._parts):
            self._finish(number)

    def _take(self, number: int, offset: int, value: bytes) -> None:
        self.counts.records += 1
        try:
            batch = list(TraceEventBatch.FromString(value).batch)
        except DecodeError:
            self.counts.broken += 1
            batch = []
        if number not in self._parts:
            output = TraceOutput(self._growing(number), self.clock)
            self._parts[number] = _Part(output, offset, offset)
        part = self._parts[number]
        part.output.append([event.SerializeToString() for event in batch])
        part.end = offset + 1
        self.counts.events += len(batch)

    def _finish(self, number: int) -> None:
        part = self._parts.pop(number)
        part.output.close()
        name = f"{self.topic}-{number}.{part.first:020}-{part.end:020}.pb"
        os.rename(self._growing(number), self.directory / name)
        self._ends[number] = part.end
        begun = self.directory / f"{_OFFSETS}.tmp"
        noted = {**self._of_other_topics, self.topic: self._ends}
        begun.write_text(json.dumps(noted), encoding="utf-8")
        os.replace(begun, self.directory / _OFFSETS)

    def _growing(self, number: int) -> Path:
        return self.directory / f"{self.topic}-{number}.pb.tmp"

    def _finished_ends(self) -> dict[int, int]:
        noted = _read_offsets(self.directory / _OFFSETS)
        ends = {int(number): end for number, end in noted.pop(self.topic, {}).items()}
        self._of_other_topics = noted
        pattern = re.compile(re.escape(self.topic) + r"-(\d+)\.\d{20}-(\d{20})\.pb")
        for name in os.listdir(self.directory):
            if found := pattern.fullmatch(name):
                number, end = int(found[1]), int(found[2])
                ends[number] = max(end, ends.get(number, 0))
        return ends


def _read_offsets(path: Path) -> dict[str, dict[str, int]]:
    """By topic and partition; nothing where there is no file. Raises ValueError where it has
    something else in it."""
    try:
        noted = json.loads(path.read_text(encoding="utf-8"))
        for of_topic in noted.values():
            for number, end in of_topic.items():
                if int(number) < 0 or not isinstance(end, int) or end < 0:
                    raise ValueError(f"partition {number} can't go on at {end!r}")
    except FileNotFoundError:
        return {}
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged ({error}): remove it, and partitions go on behind the files that "
            "are there, or from their begin"
        ) from error
    return dict(noted)
