"""`episub top`: join a topic, and watch neighbours, trees, rates and losses."""

from __future__ import annotations

import argparse
from typing import Any

from episub_router.cli.arguments import add_host_arguments, seconds, topic


def add_parser(commands: Any) -> None:
    """Add `top` to the commands of an argument parser."""
    parser = commands.add_parser(
        "top",
        help="a live view of a topic, from a node of its own",
        description="Joins a topic as a node of its own, and shows its neighbours, its part in the "
        "trees, rates and losses, until Ctrl-C. Where standard output is no terminal, each view "
        "follows the one before it.",
    )
    parser.add_argument(
        "--topic", required=True, type=topic, metavar="TOPIC", help="the topic to join"
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="between two views (default: 1)",
    )
    parser.add_argument(
        "--seconds", type=seconds, metavar="SECONDS", help="leave after so long (default: never)"
    )
    add_host_arguments(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # py-libp2p takes a second to import; --help and wrong arguments needn't wait for it.
    from episub_router.cli.farewell import run_until_interrupted
    from episub_router.cli.host import reported_errors
    from episub_router.cli.top.watching import watch

    with reported_errors():
        run_until_interrupted(watch, arguments)
    return 0
