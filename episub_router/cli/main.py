"""`episub`: the commands, and what their ends mean to the shell.

Exit status: 0 done, 1 the run failed, 2 wrong arguments, 130 interrupted with Ctrl-C, 143 ended by
SIGTERM.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from episub_router.cli.arguments import CommandError, Parser
from episub_router.trace.software import software
from episub_router.util.errors import single

try:
    from episub_router.cli import metrics, pipeline, report, sim, store, trace, why
    from episub_router.cli.chat import command as chat
    from episub_router.cli.demo import command as demo
    from episub_router.cli.node import command as node
    from episub_router.cli.top import command as top
except ModuleNotFoundError as error:
    # As where the Python of spark-submit has this package alone.
    sys.exit(f"episub: {error.name} isn't installed for {sys.executable}")

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of SIGINT."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`, by default the process's; the exit status.

    Raises SystemExit, as argparse does, for wrong arguments, `--help` and `--version`.
    """
    installed = software().partition("/")[2] or "(not installed)"
    parser = Parser(prog="episub", description="Episub broadcast trees over py-libp2p.")
    parser.add_argument("--version", action="version", version=f"episub {installed}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (demo, node, top, chat, store, metrics, sim, trace, pipeline, report, why):
        command.add_parser(commands)
    arguments = parser.parse_args(argv)
    try:
        with _drops_unlogged():
            status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BaseException as error:
        known = _status(single(error))
        if known is None:
            raise
        status = known
    if status == INTERRUPTED:
        print("episub: interrupted", file=sys.stderr)
    return status


@contextmanager
def _drops_unlogged() -> Iterator[None]:
    """Keep Pubsub's warnings about what it dropped, which is counted, out of the terminal;
    py-libp2p's LIBP2P_DEBUG brings them back."""
    logger = logging.getLogger("episub_router.pubsub")
    level = logger.level
    if not os.environ.get("LIBP2P_DEBUG"):
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _status(error: BaseException) -> int | None:
    """The exit status for `error`, reported; None for a bug."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, CommandError):
        print(f"episub: {error}", file=sys.stderr)
        return 1
    if isinstance(error, SystemExit):
        raise error  # rich's, for example, where the reader of our output went away
    if isinstance(error, BrokenPipeError):
        # The reader of our output went away; Python would complain again while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return None
