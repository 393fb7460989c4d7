"""`episub node`: one host in one topic; lines in are published, deliveries come out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episub_router.cli.arguments import (
    add_host_arguments,
    add_metrics,
    multiaddress,
    seconds,
    topic,
)

if TYPE_CHECKING:
    from multiaddr import Multiaddr

_DESCRIPTION = """\
Run one host in one topic. Lines on standard input are published; messages of
others are printed. Two of them talk when one bootstraps from the other:

  episub node --topic news
  episub node --topic news --bootstrap ADDRESS-THAT-THE-FIRST-ONE-PRINTED
"""
_EPILOG = """\
Lines wait until there is a first neighbour. At the end of its input the node
says goodbye and exits, unless --stay. Plain output has messages on standard
output and all else on standard error; with --json every event is one object
on a line of standard output:

  listening  peer, addresses (with /p2p/)   before anything else
  peer-up    peer, neighbors                a neighbour came; how many there are
  peer-down  peer, neighbors, reason        a neighbour went: failed, ended,
                                            left, evicted or banned
  published  text or base64, or file        a line, or --file, was handed to Pubsub
  failed     text or base64, error          a line was not published
  delivered  source, text or base64, or file  a message of another node came
  receiving  source, received, size         a large message is coming
  sent       neighbors, size                how many were sent all of a large one

Each also has "event" and "topic"; "base64" takes the place of "text" for
what is not UTF-8. Exit status: 0 at the end of input, 1 if the host can't
run or lines were not published, 130 after Ctrl-C, 143 after SIGTERM.
"""


def add_parser(commands: Any) -> None:
    """Add `node` to the commands of an argument parser."""
    parser = commands.add_parser(
        "node",
        help="run one host: publish lines, print what others publish",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--topic", required=True, type=topic, metavar="TOPIC", help="the topic to join")
    add_host_arguments(
        parser,
        address=_tcp_or_relay,
        where="where to listen, or RELAY/p2p-circuit to be reached through a relay",
    )
    add(
        "--file",
        type=Path,
        metavar="FILE",
        help="publish FILE as one message, of up to 16 MiB, before any line",
    )
    add(
        "--save",
        type=Path,
        metavar="DIR",
        help="write each message that comes to a file in DIR, named by source and number",
    )
    add("--stay", action="store_true", help="go on when the input ends, until Ctrl-C")
    add(
        "--patience",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long lines wait for a first neighbour, "
        "unless --stay or typed on a terminal (default: 30)",
    )
    add(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write what happens here to FILE, as PB, or as its name says: .json, .gz",
    )
    add(
        "--region",
        default="",
        metavar="NAME",
        help="where this node is, in any words: the trace says it, and reports compare regions",
    )
    add_metrics(parser)
    add("--json", action="store_true", help="print events as JSON, one per line")
    parser.set_defaults(run=_run)


def _tcp_or_relay(text: str) -> Multiaddr:
    try:
        address = multiaddress(text)
        kinds = [protocol.name for protocol in address.protocols()][1:]
    except argparse.ArgumentTypeError:
        kinds = []
    if kinds not in (["tcp"], ["tcp", "p2p", "p2p-circuit"]):
        raise argparse.ArgumentTypeError(
            f"must be like /ip4/127.0.0.1/tcp/4001, or a relay's address "
            f"like /ip4/203.0.113.7/tcp/4001/p2p/.../p2p-circuit, not {text!r}"
        )
    return address


def _run(arguments: argparse.Namespace) -> int:
    # py-libp2p takes a second to import; --help and wrong arguments needn't wait for it.
    from episub_router.cli.farewell import run_until_interrupted
    from episub_router.cli.host import reported_errors
    from episub_router.cli.node.output import JsonOutput, PlainOutput
    from episub_router.cli.node.run import run_node

    if arguments.stay or sys.stdin.isatty():
        arguments.patience = None
    output = JsonOutput(arguments.topic) if arguments.json else PlainOutput()
    with reported_errors():
        return run_until_interrupted(run_node, arguments, output, sys.stdin.fileno())
