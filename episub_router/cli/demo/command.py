"""`episub demo`: a broadcast among real hosts, and what it cost."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episub_router.cli.arguments import seconds, share, whole

if TYPE_CHECKING:
    from episub_router.cli.demo.run import DemoConfig

_DESCRIPTION = """\
Run real py-libp2p hosts in one process, over TCP, Noise and Yamux on loopback.
Every host knows only the address of host 0; the overlay makes all other links.
Then broadcast, count every copy, and show the path of the last message.
"""
_EPILOG = """\
What has to be delivered is every message at every host that is alive at the
end, except at its own source. Exit status: 0 if all of it was, and once, and all
traces could be written; else 1.
"""
_MIN_SIZE = 8
MAX_SIZE = 1_000_000

_NUMBERS: tuple[tuple[str, Callable[[str], float], float, str, str], ...] = (
    ("--hosts", whole(2, 500), 20, "N", "hosts"),
    ("--messages", whole(1, 100_000), 100, "M", "messages to broadcast"),
    ("--size", whole(_MIN_SIZE, MAX_SIZE), 256, "BYTES", "size of each message"),
    ("--sources", whole(1, 500), 1, "N", "hosts that publish, in turn"),
    ("--kill", share, 0, "SHARE",
     "crash this share of the hosts half-way, without goodbye, but no source"),
    ("--seed", whole(0, 2**63 - 1), 0, "N",
     "chooses keys, sources and victims, and seeds the routers"),
    ("--patience", seconds, 30, "SECONDS", "give up when nothing has moved for so long"),
)  # fmt: skip
"""Options that are numbers: what they may be, the default, and what help says."""


def add_parser(commands: Any) -> None:
    """Add `demo` to the commands of an argument parser."""
    parser = commands.add_parser(
        "demo",
        help="broadcast among many hosts in one process, and see what it costs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option, kind, default, metavar, text in _NUMBERS:
        about = f"{text} (default: %(default)s)"
        parser.add_argument(option, type=kind, default=default, metavar=metavar, help=about)
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="DIR",
        help="write what happens at each host to DIR, which must be new or empty",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON document")
    parser.set_defaults(run=_run, refuse=parser.error)


def _run(arguments: argparse.Namespace) -> int:
    # py-libp2p takes a second to import; --help and wrong arguments needn't wait for it.
    from episub_router.cli.demo.report import print_report
    from episub_router.cli.demo.run import run_demo
    from episub_router.cli.demo.summary import summarize
    from episub_router.cli.farewell import run_until_interrupted
    from episub_router.cli.progress import live_progress

    config = _config(arguments)
    with live_progress() as progress:
        outcome = run_until_interrupted(run_demo, config, progress)
    summary = summarize(outcome)
    if arguments.json:
        print(json.dumps(summary, indent=2))
    else:
        print_report(outcome, summary)
    untraced = dict(sorted(outcome.untraced.items()))
    if untraced:
        host, what = next(iter(untraced.items()))
        print(
            f"episub: the traces of {len(untraced)} hosts are incomplete; of host {host}, {what}",
            file=sys.stderr,
        )
    return 0 if summary["complete"] and not untraced else 1


def _config(arguments: argparse.Namespace) -> DemoConfig:
    """The checked configuration; refuses options that don't go together."""
    from episub_router.cli.demo.run import DemoConfig

    hosts, sources = arguments.hosts, arguments.sources
    if sources > hosts:
        arguments.refuse(f"argument --sources: must be at most --hosts ({hosts}), not {sources}")
    victims = round(arguments.kill * hosts)
    spared = max(sources, 2)
    if victims > hosts - spared:
        arguments.refuse(
            f"argument --kill: {arguments.kill:g} of {hosts} hosts is {victims}, but at most "
            f"{hosts - spared} can crash: all sources and at least 2 hosts live on"
        )
    return DemoConfig(
        hosts=hosts,
        messages=arguments.messages,
        size=arguments.size,
        sources=sources,
        victims=victims,
        seed=arguments.seed,
        patience=arguments.patience,
        trace=arguments.trace,
    )
