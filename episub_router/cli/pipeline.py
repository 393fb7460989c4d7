"""`episub pipeline` and `episub sweep`: from traces to answers, on Spark.

Exit status: 0 done, 1 something can't be done or, of a sweep, a delivery is missing without
an explanation, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from episub_router.cli.arguments import CommandError, lacks_extra, seconds, whole

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.stream import Progress


def add_parser(subparsers: Any) -> None:
    """Add the commands `pipeline` and `sweep` to the subparsers of the main one."""
    parser = subparsers.add_parser("pipeline", help="from traces to tables of answers, on Spark")
    commands = parser.add_subparsers(dest="pipeline", required=True, metavar="COMMAND")

    taking = commands.add_parser("ingest", help="read traces into a lake")
    taking.add_argument("input", nargs="+", metavar="INPUT",
                        help="files, directories, patterns, or URIs")  # fmt: skip
    taking.add_argument("--run", metavar="NAME", dest="run_name",
                        help="name of the run (default: what the traces say, "
                        "else the name of the directory)")  # fmt: skip
    taking.add_argument("--answers", action="store_true", help="make the answers, too")
    _add_answers(taking)
    add_common(taking, _ingest)

    answering = commands.add_parser("answers", help="make facts and answers from what is there")
    answering.add_argument("--run", metavar="NAME", dest="runs", action="append",
                           help="only this run (again for more)")  # fmt: skip
    _add_answers(answering)
    add_common(answering, _answers)

    streaming = commands.add_parser("stream", help="follow a directory that nodes put files into")
    streaming.add_argument("directory", metavar="DIR")
    streaming.add_argument("--run", metavar="NAME", dest="run_name", required=True)
    streaming.add_argument("--lateness", type=seconds, metavar="SECONDS",
                           help="how long after it happened an event may come: what nodes rotate "
                           "their files after, and some (default 3630)")  # fmt: skip
    streaming.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS",
                           help="between looks at the directory (default 1)")  # fmt: skip
    streaming.add_argument("--files", type=whole(1, 100_000), default=1_000, metavar="N",
                           help="files taken at once at most (default 1000)")  # fmt: skip
    streaming.add_argument("--once", action="store_true", help="end when all files are taken")
    _add_answers(streaming)
    add_common(streaming, _stream)

    showing = commands.add_parser("show", help="print a table, or the list of tables")
    showing.add_argument("table", nargs="?", metavar="TABLE")
    showing.add_argument("--run", metavar="NAME", dest="runs", action="append")
    showing.add_argument("--rows", type=whole(1, 1_000_000), default=50, metavar="N")
    showing.add_argument("--json", action="store_true", help="one JSON object per row")
    add_common(showing, _show, looks=_is_there)

    living = commands.add_parser("live", help="print what streams have answered so far")
    living.add_argument("--run", metavar="NAME", dest="runs", action="append")
    living.add_argument("--rows", type=whole(1, 100_000), default=20, metavar="N",
                        help="the last windows at most (default 20)")  # fmt: skip
    add_common(living, _live, looks=lambda given: True)

    removing = commands.add_parser("remove", help="take a run out of the lake")
    removing.add_argument("run_name", metavar="RUN")
    add_common(removing, _remove, looks=lambda given: True)

    compacting = commands.add_parser("compact", help="put small batches of records together")
    compacting.add_argument("--run", metavar="NAME", dest="runs", action="append",
                            help="only of this run (again for more)")  # fmt: skip
    add_common(compacting, _compact, looks=lambda given: True)

    cleaning = commands.add_parser("vacuum", help="remove what interrupted writers left")
    add_common(cleaning, _vacuum, looks=lambda given: True)

    sweeping = subparsers.add_parser("sweep", help="simulations as Spark tasks, and the answers")
    sweeping.add_argument("scenario", metavar="EXPERIMENT", help="a scenario, or a .toml file")
    sweeping.add_argument("--seeds", type=whole(1, 100_000), default=1, metavar="N",
                          help="seeds 1 to N of everything (default 1)")  # fmt: skip
    sweeping.add_argument("--set", action="append", metavar="KEY=A,B,C", default=[],
                          help="these values of a setting: network.loss=0,0.05")  # fmt: skip
    sweeping.add_argument("--json", action="store_true", help="print the summaries as JSON")
    sweeping.add_argument("--no-answers", action="store_true", help="simulate only")
    sweeping.add_argument("--summaries", action="store_true",
                          help="keep the summaries of the runs, and no traces")  # fmt: skip
    _add_answers(sweeping)
    add_common(sweeping, _sweep, engines=("spark",))


def _add_answers(parser: argparse.ArgumentParser) -> None:
    for name, what in (
        ("window", "of publishing that is answered together (default 10)"),
        ("patience", "what a message is given to arrive (default 10)"),
        ("deadline", "after which a delivery is late (default 3)"),
        ("silence", "after which a node is taken for gone (default 30)"),
    ):
        parser.add_argument(f"--{name}", type=seconds, metavar="SECONDS", help=what)


def add_common(
    parser: argparse.ArgumentParser,
    do: Callable[[argparse.Namespace, Lake], int],
    *,
    looks: Callable[[argparse.Namespace], bool] = lambda arguments: False,
    passing: bool = False,
    engines: Sequence[str] = ("spark", "sail"),
) -> None:
    """Add the arguments of all commands on a lake, and `do`, which carries this one out on one of
    `engines`, or without any where it only `looks`; with `passing`, a lake that isn't named is one
    that is there while the command runs."""
    of_lake = "directory or URI"
    if passing:
        of_lake += " (default: one that is removed in the end)"
    parser.add_argument("--lake", required=not passing, metavar="DIR", help=of_lake)
    parser.add_argument("--engine", choices=("spark", "sail"),
                        help="default: Sail for little data, where it is installed, else "
                        "Spark")  # fmt: skip
    parser.add_argument("--remote", metavar="URL",
                        help="a server of Spark Connect (sc://host:port)")  # fmt: skip
    parser.add_argument("--master", metavar="URL",
                        help="the Spark master (default local[*], or spark-submit's)")  # fmt: skip
    parser.add_argument("--conf", action="append", metavar="KEY=VALUE", default=[],
                        help="a setting of Spark")  # fmt: skip
    parser.set_defaults(run=main, do=do, looks=looks, engines=engines)


def main(arguments: argparse.Namespace) -> int:
    """Carry out a parsed command; its exit status. Raises CommandError."""
    try:
        from episub_router.pipeline import session
        from episub_router.pipeline.interrupts import stopped_in_the_end
        from episub_router.pipeline.lake import Lake, LakeError
    except ModuleNotFoundError as error:
        raise lacks_extra("spark", error) from error
    looks_only = arguments.looks(arguments)
    given = _conf(arguments.conf)
    status: int
    try:
        with _root(arguments.lake, looks_only) as root:
            if looks_only:
                status = arguments.do(arguments, Lake(None, root))
                return status
            # What a sweep makes isn't there yet.
            known = session.SAIL in arguments.engines and arguments.master is None
            size = _bytes(arguments, root) if known else None
            usual = session.settings_for(size)
            engine = _engine(arguments, size)
            try:
                spark = session.start(arguments.master, usual | given, engine, arguments.remote)
            except ModuleNotFoundError as error:
                raise lacks_extra("small", error) from error
            with stopped_in_the_end(spark):
                status = arguments.do(arguments, Lake(spark, root))
    except (LakeError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    except session.SparkError as error:
        raise CommandError(_cause(str(error))) from error
    return status


def _engine(arguments: argparse.Namespace, size: int | None) -> str:
    """The engine of a command: what is asked for, or what suits its data, some bytes of traces.
    Raises CommandError where that one can't do it."""
    from episub_router.pipeline import session

    asked: str | None = arguments.engine
    named = arguments.master or arguments.remote or arguments.conf
    if asked == session.SAIL and (named or session.SAIL not in arguments.engines):
        what = "--master, --remote and --conf are Spark's" if named else "only Spark can do this"
        raise CommandError(f"--engine sail: {what}; take --engine spark")
    if asked is not None:
        return asked
    suits = not named and session.SAIL in arguments.engines
    return session.engine_for(size) if suits else session.SPARK


def _bytes(arguments: argparse.Namespace, root: str) -> int | None:
    """Of the traces that a command is about: those that it reads, and those in the lake; of a
    stream, whose batches are little, none. None where they are elsewhere."""
    from episub_router.pipeline.ingest import listed
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.storage import is_local

    is_stream = arguments.do is _stream
    inputs = [arguments.directory] if is_stream else list(getattr(arguments, "input", ()))
    if arguments.lake is None:
        inputs += [*arguments.runs, *arguments.baseline]
    if not all(map(is_local, [root, *inputs])):
        return None
    if is_stream:
        return 0
    sizes = [(entry.file, entry.bytes) for entry in Lake(None, root).manifest()]
    sizes += [(file.path, file.size) for path in inputs for file in listed(path)]
    return sum(size * (_GZIPPED if name.endswith(".gz") else 1) for name, size in sizes)


_GZIPPED = 10
"""Bytes of a trace in one of its gzipped file. Chosen: of the benchmarks' traces it is 14."""


@contextmanager
def _root(lake: str | None, looks_only: bool) -> Iterator[str]:
    """Where the lake is: one of this command alone where none is named. Raises OSError, before
    anything is read, for a directory of this machine that nothing can be written to, and
    CommandError where answers are looked at and it isn't there."""
    from episub_router.pipeline.storage import is_local, local_path

    if lake is None:
        with tempfile.TemporaryDirectory(prefix="episub-lake-") as place:
            yield place
        return
    if is_local(lake) and looks_only and not os.path.isdir(local_path(lake)):
        raise CommandError(f"there is no lake at {lake}")
    if is_local(lake) and not looks_only:
        place = local_path(lake)
        os.makedirs(place, exist_ok=True)
        # Permissions alone don't say it: the disk may be full, or mounted for reading.
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"\0")
    yield lake


_TRACEBACK = "Traceback (most recent call last)"


def _cause(message: str) -> str:
    """What Spark says went wrong, in one line: of an exception in a worker, that exception."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    traces = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if traces:
        # Of exceptions that led to one another the last.
        return next((line for line in lines[traces[-1] + 1 :] if not line[0].isspace()), lines[0])
    return lines[0] if lines else "Spark doesn't say what went wrong"


def _conf(assignments: Sequence[str]) -> dict[str, str]:
    conf = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise CommandError(f"--conf {assignment!r}: must be key=value")
        conf[key] = value
    return conf


def _params(arguments: argparse.Namespace) -> Any:
    from episub_router.pipeline.params import AnswerParams

    names = ("window", "patience", "deadline", "silence", "lateness")
    given = {name: getattr(arguments, name, None) for name in names}
    return AnswerParams(**{name: value for name, value in given.items() if value is not None})


def _ingest(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.ingest import ingest

    done = ingest(lake.session, lake, arguments.input, arguments.run_name)
    print(
        f"{len(done.added)} files added, {len(done.known)} were there: {done.events:,} events, "
        f"{done.quarantined:,} records quarantined"
    )
    for name in done.runs:
        of_run = [entry for entry in done.added if entry.run == name]
        events = sum(entry.events for entry in of_run)
        print(f"  run {name}: {len(of_run)} files added, {events:,} events")
    for entry in done.added:
        if entry.quarantined:
            print(f"  {entry.file}: {entry.quarantined:,} of {entry.records:,} quarantined")
    if done.quarantined and not done.events:
        raise CommandError("no record of these files is an event of a trace")
    if arguments.answers:
        make_answers(lake, arguments, done.runs)
        _print_verdict(lake, done.runs)
    return 0


def _answers(arguments: argparse.Namespace, lake: Lake) -> int:
    make_answers(lake, arguments, arguments.runs)
    _print_verdict(lake, arguments.runs)
    return 0


def make_answers(lake: Lake, arguments: argparse.Namespace, runs: Sequence[str] | None) -> None:
    """Make all tables of `runs`, by default of all, with a line for each on the error stream."""
    from episub_router.pipeline.run import answer

    console = _console(stderr=True)
    with console.status("making tables") as status:
        # In a terminal, a line that changes says what is being made; in a log each table has one.
        steps = answer(lake, _params(arguments), runs, lambda name: status.update(f"making {name}"))
        for name, took in steps:
            console.print(f"{name}  {took:.1f} s")


def _print_verdict(lake: Lake, runs: Sequence[str] | None) -> None:
    rows = lake.look("gold", "spread", runs).to_table().to_pylist()
    table = Table(
        "run", "topic", "messages", "reliability", "p50", "p99", "RMR", "LDH", "hops", box=None
    )
    for row in sorted(rows, key=lambda row: (row["run"], row["topic"] or "")):
        if row["window"] is None:
            table.add_row(
                row["run"], row["topic"], f"{row['messages']:,}", f"{row['reliability']:.4%}",
                _milliseconds(row["latency_p50"]), _milliseconds(row["latency_p99"]),
                f"{row['rmr']:.3f}", f"{row['ldh']:.1f}",
                "" if row["mean_hops"] is None else f"{row['mean_hops']:.1f}",
            )  # fmt: skip
    _console().print(table)


def _console(*, stderr: bool = False) -> Console:
    # Names of runs and topics come from traces, and are no markup.
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def _milliseconds(nanoseconds: float | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / 1e6:,.1f} ms"


_ON_SAIL = 40
"""A stream's batches, after which its process begins anew on Sail: each leaves some 40 to 54 MB in
Sail's own heap, by the questions and not by their rows, which the end of its session and of its
server don't give back."""


def _stream(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.session import is_sail
    from episub_router.pipeline.stream import stream

    batches = count(1)

    def tell(progress: Progress) -> None:
        events = sum(entry.events for entry in progress.files)
        late = sum(entry.late for entry in progress.files)
        quarantined = sum(entry.quarantined for entry in progress.files)
        print(
            f"batch {progress.number}: {len(progress.files)} files, {events:,} events, {late:,} "
            f"late, {quarantined:,} quarantined",
            flush=True,
        )
        # The lake has all that a stream goes on from. A program that calls `main` goes on itself.
        is_command = sys.argv[1:3] == ["pipeline", "stream"]
        if is_sail(lake.session) and next(batches) == _ON_SAIL and is_command:
            # A Ctrl-C meanwhile waits until it is heeded again.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            os.execv(sys.executable, sys.orig_argv)

    print(f"following {arguments.directory}", flush=True)
    stream(
        lake,
        arguments.directory,
        arguments.run_name,
        _params(arguments),
        interval=arguments.interval,
        once=arguments.once,
        files_per_batch=arguments.files,
        on_batch=tell,
    )
    return 0


def _is_there(arguments: argparse.Namespace) -> bool:
    """Whether what is to be shown needn't be made first."""
    from episub_router.pipeline.run import ON_DEMAND

    return arguments.table not in ON_DEMAND


def _show(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.lake import GOLD, SILVER
    from episub_router.pipeline.run import on_demand

    there = {name: layer for layer in (SILVER, GOLD) for name in lake.tables(layer)}
    name = arguments.table
    if name is None:
        for one, layer in there.items():
            print(f"{layer}/{one}")
        return 0
    if not _is_there(arguments):
        found = on_demand(lake, name, arguments.runs).limit(arguments.rows).toArrow()
    elif name in there:
        found = lake.look(there[name], name, arguments.runs).head(arguments.rows)
    else:
        raise CommandError(f"no table {name!r}; there are {', '.join(there) or 'none'}")
    rows = found.to_pylist()
    if arguments.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    texts = [found.column_names, *(list(map(str, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for text in texts:
        print("  ".join(map(str.ljust, text, widths)).rstrip())
    return 0


def _live(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.stream import answered_until, live

    spread = live(lake, "spread", arguments.runs or lake.runs())
    if not spread:
        raise CommandError("no stream has answered anything here")
    spread.sort(key=lambda row: (row["window"], row["run"], row["topic"] or ""))
    table = Table("run", "topic", "from", "messages", "missing", "p50", "p99", box=None)
    for row in spread[-arguments.rows :]:
        begin = datetime.fromtimestamp(row["window"] / 1e9, UTC)
        table.add_row(
            row["run"], row["topic"], begin.strftime("%F %T"), f"{row['messages']:,}",
            f"{row['live'] - row['delivered']:,}", _milliseconds(row["latency_p50"]),
            _milliseconds(row["latency_p99"]),
        )  # fmt: skip
    _console().print(table)
    for run in sorted({row["run"] for row in spread}):
        if until := answered_until(lake, run):
            print(
                f"{run}: the last event that these have was {time.time() - until / 1e9:,.1f} s ago"
            )
    return 0


def _remove(arguments: argparse.Namespace, lake: Lake) -> int:
    lake.remove(arguments.run_name)
    return 0


def _compact(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.bronze.compaction import compact

    before = len({entry.batch for entry in lake.manifest()})
    made = compact(lake, arguments.runs)
    print(f"{before} batches before, {len({entry.batch for entry in lake.manifest()})} now; new:")
    for name in made:
        print(name)
    return 0


def _vacuum(arguments: argparse.Namespace, lake: Lake) -> int:
    del arguments
    for path in lake.vacuum():
        print(path)
    return 0


def _sweep(arguments: argparse.Namespace, lake: Lake) -> int:
    from episub_router.pipeline.sweep import grid, parse_choices, sweep
    from episub_router.sim.results import report

    jobs = grid(arguments.scenario, parse_choices(arguments.set), arguments.seeds)
    done = sweep(lake.session, lake, jobs, summaries_only=arguments.summaries)
    summaries = [(job, entry, json.loads(entry.result or "{}")) for job, entry in done]
    if arguments.json:
        runs = [
            {"run": entry.run, "variant": job.label, "summary": summary}
            for job, entry, summary in summaries
        ]
        print(json.dumps(runs, indent=1, sort_keys=True))
    else:
        by_label: dict[str, list[Mapping[str, Any]]] = {}
        for job, _, summary in summaries:
            by_label.setdefault(job.label, []).append(summary)
        means = {label: report.mean_of(of_one) for label, of_one in by_label.items()}
        title = f"{arguments.scenario}, mean of {arguments.seeds} seeds"
        _console().print(report.variants(means, title))
    if not (arguments.no_answers or arguments.summaries):
        names = [entry.run for _, entry in done]
        make_answers(lake, arguments, names)
        _print_verdict(lake, names)
    return 1 if any(summary["unexplained"] for _, _, summary in summaries) else 0
