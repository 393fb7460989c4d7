"""`episub trace`: look into trace files, and check them."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episub_router.cli.arguments import CommandError, add_listening_arguments, lacks_extra

if TYPE_CHECKING:
    from episub_router.trace.reading.checking import Check

_CAT = """\
Print the events of trace files, one per line: ours, and those of Go's PBTracer,
JSONTracer and traced; gzipped or not. What is unreadable is reported on standard
error, with its offset in the uncompressed bytes, and passed over.
"""
_CHECK = """\
Count what is in trace files, and find what is not: unreadable bytes, events that
were written and are missing, events that the tracer itself had to drop. Exit
status: 0 nothing is known to be lost, 1 something is, 2 wrong arguments.
"""
_LOOK = 1.0
"""Seconds between looks whether a file is old enough."""
_COLLECT = """\
Take what nodes send over /libp2p/pubsub/tracer/1.0.0, as go-libp2p-pubsub's
RemoteTracer does, or what is in a topic of Kafka, and write it to files in a
directory, until interrupted.
"""


def add_parser(commands: Any) -> None:
    """Add `trace` to the commands of an argument parser."""
    parser = commands.add_parser("trace", help="look into trace files, and check them")
    parts = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, about, description, run in (
        ("cat", "print the events of trace files", _CAT, _cat),
        ("check", "count events, find what is missing or damaged", _CHECK, _check),
    ):
        part = parts.add_parser(
            name,
            help=about,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        part.add_argument("files", nargs="+", type=Path, metavar="FILE")
        part.set_defaults(run=run)
        wants = "events as Go's JSONTracer writes them" if name == "cat" else "the findings as JSON"
        part.add_argument("--json", action="store_true", help=f"print {wants}")
    collect = parts.add_parser(
        "collect",
        help="take traces that nodes send",
        description=_COLLECT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    collect.add_argument("directory", type=Path, metavar="DIRECTORY")
    add_listening_arguments(collect)
    collect.add_argument("--kafka", metavar="HOST:PORT", action="append",
                         help="read from this broker instead (again for more)")  # fmt: skip
    collect.add_argument("--topic", metavar="NAME", default="traces",
                         help="the topic of Kafka (default: traces)")  # fmt: skip
    collect.set_defaults(run=_collect)


def _cat(arguments: argparse.Namespace) -> int:
    from episub_router.trace.reading import Unreadable
    from episub_router.trace.reading.json_lines import to_json
    from episub_router.trace.text import line

    damaged = False
    for path in arguments.files:
        simulated = False
        with _opened(path) as trace:
            for offset, event in trace:
                if isinstance(event, Unreadable):
                    damaged = True
                    print(
                        f"{path}: {event.size} bytes at {offset}: {event.reason}", file=sys.stderr
                    )
                elif arguments.json:
                    print(to_json(event))
                else:
                    if event.HasField("header"):
                        simulated = event.header.simulated
                    print(line(event, simulated=simulated))
    return 1 if damaged else 0


def _check(arguments: argparse.Namespace) -> int:
    from episub_router.cli.progress import live_progress
    from episub_router.trace.reading.checking import check

    findings: dict[str, Check] = {}
    with live_progress() as show:
        for path in arguments.files:

            def progress(done: int, size: int, path: Path = path) -> None:
                show(path.name, done, size, "bytes")

            with _opened(path) as trace:
                findings[str(path)] = check(trace, progress)
    if arguments.json:
        print(json.dumps({path: _as_json(found) for path, found in findings.items()}, indent=1))
    else:
        for path, found in findings.items():
            _print(path, found)
    return 0 if all(found.complete for found in findings.values()) else 1


def _collect(arguments: argparse.Namespace) -> int:
    if arguments.kafka:
        _consume(arguments)
        return 0
    import trio

    from episub_router.cli.host import reported_errors

    with reported_errors():
        trio.run(_take, arguments)
    return 0


def _consume(arguments: argparse.Namespace) -> None:
    import signal

    try:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaError
    except ModuleNotFoundError as error:
        raise lacks_extra("kafka", error) from error
    from episub_router.trace.kafka import KafkaCollector

    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: stopped.append(number))
    try:
        consumer = KafkaConsumer(bootstrap_servers=arguments.kafka, enable_auto_commit=False)
        collector = KafkaCollector(arguments.directory, consumer, arguments.topic, TopicPartition)
        print(f"* reading {arguments.topic}", flush=True)
        try:
            while not stopped:
                collector.step()
        finally:
            collector.close()
            consumer.close()
    except (KafkaError, LookupError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    _print_counts(collector.counts)


def _print_counts(counts: Any) -> None:
    shown = ", ".join(f"{count} {name}" for name, count in asdict(counts).items())
    print(f"* {shown}", flush=True)


async def _take(arguments: argparse.Namespace) -> None:
    import signal

    import trio
    from libp2p.custom_types import TProtocol

    from episub_router.cli.host import running_host
    from episub_router.trace.collector import PROTOCOL_ID, TraceCollector

    try:
        collector = TraceCollector(arguments.directory)
    except OSError as error:
        raise CommandError(f"{arguments.directory}: {error.strerror}") from error

    async def look() -> None:
        while True:
            await trio.sleep(_LOOK)
            collector.rotate()

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        try:
            async with running_host(arguments) as host, trio.open_nursery() as nursery:
                host.set_stream_handler(TProtocol(PROTOCOL_ID), collector.handle)
                for address in host.get_addrs():
                    print(f"* listening on {address}", flush=True)
                nursery.start_soon(look)
                async for _ in signals:
                    nursery.cancel_scope.cancel()
        finally:
            collector.close()
    _print_counts(collector.counts)


def _opened(path: Path) -> Any:
    from episub_router.trace.reading import TraceFile

    try:
        return TraceFile(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _as_json(found: Check) -> dict[str, Any]:
    counted = {"events": dict(found.events), "total": found.total, "complete": found.complete}
    return {**asdict(found), **counted}


def _print(path: str, found: Check) -> None:
    kind = "JSON lines" if found.format == "json" else "PB"
    print(f"{path}: {kind}{', gzipped' if found.gzipped else ''}")
    span = (found.last - found.first) / 1e9 if found.first is not None and found.last else 0
    print(f"  {found.total} events of {found.nodes} nodes in {span:.1f} s")
    for name, count in found.events.most_common():
        print(f"    {count:>9} {name}")
    for offset, size, reason in found.unreadable_at:
        print(f"  unreadable: {size} bytes at {offset}: {reason}")
    _print_more(found.unreadable, len(found.unreadable_at), "unreadable places")
    for gap in found.gaps:
        print(f"  missing: {gap.events} events between {gap.after} and {gap.before}")
    if found.dropped:
        print(f"  dropped by the tracer, whose queue was full: {found.dropped} events")
    if found.failed:
        print(f"  not written by the tracer: {found.failed} events ({found.error})")
    if found.ended is False:
        print("  the end is not there: the tracer is at work, or was killed")
    print("  " + ("nothing is known to be lost" if found.complete else "INCOMPLETE"))


def _print_more(count: int, listed: int, what: str) -> None:
    if count > listed:
        print(f"  and {count - listed} more {what}")
