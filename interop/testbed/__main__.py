"""`python -m interop.testbed SCENARIO.toml`: runs, checks, and makes the page of a run."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

import trio

from episub_router.util.errors import single
from interop.testbed.checker.check import check
from interop.testbed.faults import NETWORK
from interop.testbed.history import files
from interop.testbed.history.records import History
from interop.testbed.lab import sandbox
from interop.testbed.lab.network import NetworkError
from interop.testbed.lab.software import problem
from interop.testbed.report.summary import lines, summarise
from interop.testbed.run import NotJoined, Run
from interop.testbed.scenario import Scenario, load

_BROKEN_PROMISE, _NOT_RUN, _SKIPPED = 1, 2, 77
"""Exit statuses; 77 is what automake takes for a test that was skipped."""


def main(arguments: list[str]) -> int:
    """The exit status: 0 if all promises held, 1 if not, 2 if it couldn't be run, 77 if something
    that it needs isn't there: with `--need-network` the network."""
    parser = argparse.ArgumentParser(prog="python -m interop.testbed", description=__doc__)
    parser.add_argument("scenario", type=Path, help="a TOML file, or with --check a directory")
    parser.add_argument("--out", type=Path, help="directory for what comes out of it")
    parser.add_argument("--seed", type=int, help="for random faults; default: the scenario's")
    parser.add_argument("--kind", help="what runs on all hosts; default: the scenario's")
    parser.add_argument("--page", action="store_true", help="make page.html (extra `report`)")
    parser.add_argument("--check", type=Path, metavar="DIR", help="check the run in DIR again")
    parser.add_argument(
        "--need-network", action="store_true", help="don't run over loopback instead"
    )
    args = parser.parse_args(arguments)
    try:
        scenario = load(args.scenario, seed=args.seed, kind=args.kind)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if args.check:
        return _finish(scenario, files.read(args.check), args.check, page=args.page)
    for kind in sorted(set(scenario.kinds)):
        if reason := problem(kind):
            print(f"testbed: {reason}", file=sys.stderr)
            return _NOT_RUN
    reason = sandbox.problem()
    if reason is not None:
        print(f"testbed: no network of our own: {reason}", file=sys.stderr)
        if args.need_network:
            return _SKIPPED
        left_out = sum(fault.kind in NETWORK for fault in scenario.faults)
        print(f"testbed: over loopback, without {left_out} faults of it", file=sys.stderr)
    out = args.out or Path(tempfile.mkdtemp(prefix="testbed-"))
    out = out.absolute()
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    if reason is None:
        sandbox.enter()
    return _run(scenario, out, isolated=reason is None, page=args.page)


def _run(scenario: Scenario, out: Path, *, isolated: bool, page: bool) -> int:
    status = 128
    history: History | None = None
    try:
        made = Run(scenario, out, isolated=isolated, say=_say)
    except (NetworkError, FileNotFoundError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return _SKIPPED

    async def run() -> None:
        nonlocal history, status
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed_signals, nursery.cancel_scope)
            history = await made.run()
            nursery.cancel_scope.cancel()

    async def _heed_signals(scope: trio.CancelScope) -> None:
        nonlocal status
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                status = 128 + number
                scope.cancel()

    try:
        trio.run(run)
    except* NotJoined as group:
        print(f"testbed: {single(group)}", file=sys.stderr)
        status = _NOT_RUN
    if history is None:
        return status
    files.write(history, out)
    return _finish(scenario, history, out, page=page)


def _finish(scenario: Scenario, history: History, out: Path, *, page: bool) -> int:
    violations = check(history, scenario.promises)
    summary = summarise(history, scenario.promises, violations)
    result = {
        "name": history.name,
        "seed": scenario.seed,
        "kinds": list(history.kinds),
        "faults": [fault.text() for fault in history.faults],
        "figures": summary.as_json(),
        "violations": [str(violation) for violation in violations],
    }
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    if page:
        # Altair takes a second to import.
        from interop.testbed.report.page import page as as_page

        (out / "page.html").write_text(as_page(history, summary, violations))
    for line in lines(history, summary, violations):
        _say(line)
    _say(f"files are in {out}")
    return _BROKEN_PROMISE if violations else 0


def _say(text: str) -> None:
    print(f"testbed: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
