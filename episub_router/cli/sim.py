"""`episub sim`: run scenarios in the simulator, and compare what comes out.

Exit codes: 0 all is well, 1 a delivery is missing without an explanation, 2 the command,
the scenario or a file is not usable.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from episub_router.cli.progress import ShowProgress, live_progress

if TYPE_CHECKING:
    from episub_router.sim.profile import Profile
    from episub_router.sim.runner import Job, Result

_TRACES = ("parquet", "pb", "pb.gz", "json", "json.gz")
_EXTRA = "the simulator needs more packages: pip install 'episub-router[sim]'"


def add_parser(subparsers: Any) -> None:
    """Add the `sim` command to the subparsers of the main one; its `run` is `main`."""
    parser = subparsers.add_parser("sim", help="run scenarios in the simulator")
    parser.add_argument("--version", action="version", version=f"episub sim, {build()}")
    parser.set_defaults(run=main)
    commands = parser.add_subparsers(dest="sim_command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="the scenarios that there are")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(do=_list)
    runs = commands.add_parser("run", help="run a scenario, in all its variants")
    _add_scenario(runs)
    runs.add_argument("--seeds", type=int, default=1, help="number of seeds (default 1)")
    runs.add_argument("--warm", action="append", type=Path, metavar="PATH", default=[],
                      help="start runs from this kept warm-up where it is theirs; "
                      "a folder keeps all for later commands")  # fmt: skip
    runs.add_argument("--processes", type=int, default=1, help="runs at a time (default 1)")
    runs.add_argument("--out", type=Path, metavar="DIR", help="write summary.json and plots here")
    runs.add_argument("--plots", choices=("svg", "png", "none"), default="svg", help="plot format")
    runs.add_argument("--trace", nargs="?", const="parquet", choices=_TRACES, metavar="FORMAT",
                      help="write every event to DIR, as parquet (the default), "
                      "pb, pb.gz, json or json.gz, which `episub trace` reads")  # fmt: skip
    runs.add_argument("--phases", action="store_true",
                      help="a table for each variant, with a column for each phase")  # fmt: skip
    runs.add_argument("--profile", action="store_true",
                      help="where the time went, by kind of event, on standard error")  # fmt: skip
    runs.add_argument("--json", action="store_true", help="print the summaries as JSON")
    runs.set_defaults(do=_run)
    attacking = commands.add_parser("attack", help="search for the worst that adversaries can do")
    _add_scenario(attacking)
    attacking.set_defaults(do=_attack, nodes=100)
    attacking.add_argument("--runs", type=int, default=200, help="runs in all (default 200)")
    attacking.add_argument("--processes", type=int, default=1, help="runs at a time (default 1)")
    attacking.add_argument("--out", type=Path, metavar="DIR",
                           help="write attack.json and the worst as worst.toml here")  # fmt: skip
    attacking.add_argument("--json", action="store_true", help="print all runs as JSON")
    warming = commands.add_parser("warm", help="keep a warm-up that runs can start from")
    _add_scenario(warming)
    warming.add_argument("--until", type=float, default=math.inf, metavar="SECONDS",
                         help="end here, before the scenario's first message")  # fmt: skip
    warming.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file")
    warming.set_defaults(do=_warm)
    comparing = commands.add_parser("compare", help="compare two runs")
    comparing.add_argument("run_a", type=Path, metavar="RUN_A", help="directory or summary.json")
    comparing.add_argument("run_b", type=Path, metavar="RUN_B", help="directory or summary.json")
    comparing.add_argument("--json", action="store_true", help="both summaries as JSON")
    comparing.set_defaults(do=_compare)


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", metavar="NAME", help="a scenario's name, or a .toml file")
    parser.add_argument("--nodes", type=int, help="number of nodes")
    parser.add_argument("--messages", type=int, help="number of messages")
    parser.add_argument("--seed", type=int, default=1, help="first seed (default 1)")
    parser.add_argument("--variant", action="append", metavar="TEXT", default=[],
                        help="only variants whose name contains this")  # fmt: skip
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", default=[],
                        help="change a setting, e.g. network.loss=0.05")  # fmt: skip


def build() -> str:
    """Which build of the core runs: "compiled" or "pure Python"."""
    found = find_spec("episub_router.protocol.topic")
    pure = found is None or str(found.origin).endswith(".py")
    return "pure Python" if pure else "compiled"


def main(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `sim` command; returns the exit code."""
    try:
        status: int = arguments.do(arguments)
        return status
    except ModuleNotFoundError as error:
        print(f"episub sim: {_EXTRA} ({error})", file=sys.stderr)
    except (ValueError, OSError) as error:
        # ScenarioError is a ValueError; JSON errors are too.
        print(f"episub sim: {error}", file=sys.stderr)
    return 2


def _list(arguments: argparse.Namespace) -> int:
    from episub_router.sim.scenario import loading

    files = [loading.load(name) for name in loading.names()]
    if arguments.json:
        listing = [
            {"name": f.name, "about": f.about, "variants": [v.name for v in f.variants]}
            for f in files
        ]
        print(json.dumps(listing, indent=1))
        return 0
    table = Table("scenario", "what it shows", "variants", box=None)
    for file in files:
        table.add_row(file.name, file.about, str(len(file.variants) or 1))
    Console().print(table)
    return 0


def _tables(arguments: argparse.Namespace) -> tuple[str, dict[str, Any], dict[str, dict[str, Any]]]:
    """The scenario's name, the settings that the command changes, and the tables to be run."""
    from episub_router.sim.scenario import loading

    settings = loading.parse_settings(arguments.set)
    given = {"network.nodes": arguments.nodes, "traffic.messages": arguments.messages}
    settings |= {key: value for key, value in given.items() if value is not None}
    file = loading.load(arguments.scenario)
    tables = file.tables(settings, arguments.variant or ("",))
    if not tables:
        # Their names have commas.
        names = "; ".join(variant.name for variant in file.variants) or "no variants"
        raise ValueError(f"no variant matches {arguments.variant}; there are: {names}")
    return file.name, settings, tables


def _attack(arguments: argparse.Namespace) -> int:
    from episub_router.sim.attack import AttackSearch
    from episub_router.sim.scenario.loading import dumps

    if arguments.runs < 1 or arguments.processes < 1:
        raise ValueError("--runs and --processes must be at least 1")
    name, _, tables = _tables(arguments)
    if len(tables) > 1:
        raise ValueError(f"choose one variant: {'; '.join(tables)}")
    (table,) = tables.values()
    search = AttackSearch(table, arguments.seed, arguments.processes)
    attempts = []
    with live_progress() as show:
        for attempt in search.attempts(arguments.runs):
            attempts.append(attempt)
            harm = max(each.harm for each in attempts)
            show("runs", len(attempts), arguments.runs, f"worst {harm:.2f}")
    ranked = sorted(attempts, key=lambda attempt: -attempt.harm)
    about = f"The worst of {arguments.runs} attacks on {name}, seed {arguments.seed}"
    worst = {**search.with_adversary(ranked[0].adversary), "name": f"{name}-worst", "about": about}
    everything = {
        "scenario": name, "seed": arguments.seed, "none": asdict(search.none), "worst": worst,
        "attempts": [asdict(attempt) for attempt in attempts],
    }  # fmt: skip
    text = json.dumps(everything, indent=1)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "attack.json").write_text(text + "\n", encoding="utf-8")
        (arguments.out / "worst.toml").write_text(dumps(worst), encoding="utf-8")
    if arguments.json:
        print(text)
        return 0
    shown = Table("harm", "p99, ms", "lost, %", "adversaries", title=about, box=None)
    for attempt in [search.none, *ranked[:10]]:
        knobs = ", ".join(f"{key} {value}" for key, value in attempt.adversary.items()) or "none"
        cells = f"{attempt.harm:.2f}", f"{1000 * attempt.p99:,.0f}", f"{100 * attempt.lost:.3f}"
        shown.add_row(*cells, knobs)
    Console(highlight=False).print(shown)
    return 0


def _warm(arguments: argparse.Namespace) -> int:
    from episub_router.sim.runner import keep_warm_up
    from episub_router.sim.scenario import loading
    from episub_router.sim.warm_up import key

    scenarios = {label: loading.build(table) for label, table in _tables(arguments)[2].items()}
    if len({key(scenario, arguments.seed) for scenario in scenarios.values()}) > 1:
        names = "; ".join(scenarios)
        raise ValueError(f"these variants have different warm-ups, choose one: {names}")
    # What is left out by ending early is simulated by each run that starts from the file.
    scenario = min(scenarios.values(), key=lambda scenario: scenario.quiet_until)
    until = min(arguments.until, scenario.quiet_until)
    with live_progress() as show:
        advance = _bar(show, "warm-up", until)
        keep_warm_up(scenario, arguments.seed, arguments.out, until, advance)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from episub_router.sim.results import report
    from episub_router.sim.runner import jobs_for
    from episub_router.sim.scenario import loading

    if arguments.seeds < 1 or arguments.processes < 1:
        raise ValueError("--seeds and --processes must be at least 1")
    if arguments.trace and arguments.out is None:
        raise ValueError("--trace needs --out")
    if arguments.profile and arguments.processes > 1:
        raise ValueError("--profile is of one process")
    name, settings, tables = _tables(arguments)
    scenarios = {label: loading.build(table) for label, table in tables.items()}
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    jobs = jobs_for(scenarios, range(arguments.seed, arguments.seed + arguments.seeds))
    by_variant: dict[str, list[dict[str, Any]]] = {}
    for job, result in _perform(jobs, arguments):
        by_variant.setdefault(job.label, []).append(result.summary)
        _note_speed(job, result)
    means = {name: report.mean_of(summaries) for name, summaries in by_variant.items()}
    runs = [
        {"variant": name, "summary": summary}
        for name, summaries in by_variant.items()
        for summary in summaries
    ]
    everything = {"scenario": name, "settings": settings, "runs": runs}
    if arguments.out is not None:
        _write(arguments, everything, {name: of[0] for name, of in by_variant.items()})
    if arguments.json:
        print(json.dumps(everything, indent=1, sort_keys=True))
    else:
        _show(name, means, len(jobs) // len(means), arguments.phases)
    return 1 if any(summary["unexplained"] for summary in means.values()) else 0


def _perform(jobs: list[Job], arguments: argparse.Namespace) -> Any:
    """Yield (job, result), with a progress display on standard error."""
    from episub_router.sim.profile import Profile
    from episub_router.sim.runner import SharedWarmUps, run, sweep

    profile = Profile() if arguments.profile else None
    with live_progress() as show:
        if arguments.processes > 1 and not arguments.trace:
            runs = sweep(jobs, arguments.processes, arguments.warm)
            for done, (job, result) in enumerate(runs, 1):
                show("runs", done, len(jobs), "")
                yield job, result
            return
        apart = arguments.trace or arguments.profile
        with SharedWarmUps([] if apart else jobs, arguments.warm) as shared:
            for job in jobs:
                label = f"{job.label or job.scenario.name} seed {job.seed}"
                advance = _bar(show, label, job.scenario.end)
                trace = None
                if arguments.trace:
                    part = f"{_file_part(job.label)}-{job.seed}.{arguments.trace}"
                    trace = arguments.out / f"trace{part}"
                warm = shared.take(job, advance)
                result = run(
                    job.scenario, job.seed, trace=trace, progress=advance, warm=warm,
                    profile=profile,
                )  # fmt: skip
                yield job, result
    if profile is not None:
        _show_profile(profile)


def _bar(show: ShowProgress, label: str, total: float) -> Callable[[float, int], None]:
    """How to advance a bar for `total` simulated seconds."""
    started = perf_counter()

    def advance(now: float, events: int) -> None:
        speed = events / (perf_counter() - started)
        rate = f"{now:,.0f} s simulated, {speed:,.0f} events/s"
        show(label, round(now), round(total), rate)

    return advance


def _note_speed(job: Job, result: Result) -> None:
    events = result.summary["events"]
    print(
        f"{job.label or job.scenario.name}, seed {job.seed}: {events:,} events in "
        f"{result.seconds:.1f} s, {events / result.seconds:,.0f}/s",
        file=sys.stderr,
    )


def _show_profile(profile: Profile) -> None:
    rows = profile.rows()
    events = sum(count for _, count, _ in rows)
    total = sum(seconds for _, _, seconds in rows)
    table = Table("kind of event", "events", "share", "seconds", "share", "us each", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for kind, count, seconds in [*rows, ("all", events, total)]:
        table.add_row(
            kind, f"{count:,}", f"{count / events:.1%}", f"{seconds:.2f}",
            f"{seconds / total:.1%}", f"{seconds / count * 1e6:.1f}",
        )  # fmt: skip
    Console(stderr=True).print(table)


def _file_part(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f" {label.lower()}").rstrip("-") if label else ""


def _write(
    arguments: argparse.Namespace,
    everything: Mapping[str, Any],
    first: Mapping[str, Mapping[str, Any]],
) -> None:
    text = json.dumps(everything, indent=1, sort_keys=True) + "\n"
    (arguments.out / "summary.json").write_text(text, encoding="utf-8")
    if arguments.plots != "none":
        from episub_router.sim.results.plots import draw

        draw(first, arguments.out, arguments.plots)


def _show(name: str, means: Mapping[str, Mapping[str, Any]], seeds: int, each_phase: bool) -> None:
    from episub_router.sim.results import published, report

    console = Console(highlight=False)
    title = report.titled(name, next(iter(means.values())), seeds)
    if len(means) == 1:
        ((label, summary),) = means.items()
        console.print(report.phases(summary, f"{title}: {label}" if label else title))
    elif each_phase:
        for label, summary in means.items():
            console.print(report.phases(summary, f"{title}: {label}"))
    else:
        console.print(report.variants(means, title))
    for label, summary in means.items():
        for line in report.notes(summary):
            console.print(f"{label}: {line}" if label else line)
    for summary in means.values():
        if published.same_size(summary):
            console.print(published.comparison(summary))


def _compare(arguments: argparse.Namespace) -> int:
    from episub_router.sim.results import report

    a, b = _read_runs(arguments.run_a), _read_runs(arguments.run_b)
    if arguments.json:
        print(json.dumps({"a": a, "b": b}, indent=1, sort_keys=True))
        return 0
    names = [name for name in a if name in b]
    pairs = [(name, name) for name in names] or [(next(iter(a)), next(iter(b)))]
    console = Console()
    for left, right in pairs:
        shown = (f"{arguments.run_a} {left}".strip(), f"{arguments.run_b} {right}".strip())
        console.print(report.compare(a[left], b[right], shown))
    return 0


def _read_runs(path: Path) -> dict[str, dict[str, Any]]:
    """The mean of each variant in a summary.json."""
    from episub_router.sim.results import report

    file = path / "summary.json" if path.is_dir() else path
    content = json.loads(file.read_text(encoding="utf-8"))
    runs: dict[str, list[dict[str, Any]]] = {}
    try:
        for entry in content["runs"]:
            runs.setdefault(entry["variant"], []).append(entry["summary"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} is no summary of a run: {error!r}") from error
    if not runs:
        raise ValueError(f"{file} has no runs")
    return {name: report.mean_of(summaries) for name, summaries in runs.items()}
