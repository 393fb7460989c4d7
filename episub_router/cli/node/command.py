"""`episub node`: one host in one topic; lines in are published, deliveries come out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from episub_router.cli.arguments import add_announce, add_metrics, seconds, topic

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
_LOOPBACK = "/ip4/127.0.0.1/tcp/0"


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
    add(
        "--listen",
        action="append",
        metavar="MULTIADDR",
        help="where to listen, or RELAY/p2p-circuit to be reached through a relay; may be repeated "
        f"(default: {_LOOPBACK}, this machine only)",
    )
    add_announce(parser)
    add(
        "--bootstrap",
        nargs="+",
        action="extend",
        default=[],
        metavar="MULTIADDR",
        help="full addresses, with /p2p/, of nodes to join through",
    )
    add(
        "--key",
        type=Path,
        metavar="FILE",
        help="identity key; made if there is no such file (default: a new key for each run)",
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
    add("--verbose", action="store_true", help="note what happens in the topic, and what fails")
    parser.set_defaults(run=_run, refuse=parser.error)


def _run(arguments: argparse.Namespace) -> int:
    # py-libp2p takes a second to import; --help and wrong arguments needn't wait for it.
    from libp2p.crypto.ed25519 import create_new_key_pair
    from multiaddr import Multiaddr

    from episub_router.cli.farewell import run_until_interrupted
    from episub_router.cli.keys import load_or_create
    from episub_router.cli.node.output import JsonOutput, PlainOutput
    from episub_router.cli.node.run import NodeConfig, run_node
    from episub_router.cli.quiet import quiet_libp2p
    from episub_router.net.discovery.bootstrap import parse_bootstrap

    try:
        parse_bootstrap(arguments.bootstrap)
    except ValueError as error:
        arguments.refuse(f"argument --bootstrap: {error}")
    listen = []
    for text in arguments.listen or [_LOOPBACK]:
        try:
            listen.append(Multiaddr(text))
            kinds = [protocol.name for protocol in listen[-1].protocols()][1:]
        except Exception:  # whatever the parts of the text make multiaddr raise
            kinds = []
        if kinds not in (["tcp"], ["tcp", "p2p", "p2p-circuit"]):
            arguments.refuse(
                f"argument --listen: must be like /ip4/127.0.0.1/tcp/4001, or a relay's address "
                f"like /ip4/203.0.113.7/tcp/4001/p2p/.../p2p-circuit, not {text!r}"
            )
    quiet_libp2p()
    interactive = sys.stdin.isatty()
    config = NodeConfig(
        key_pair=load_or_create(arguments.key) if arguments.key else create_new_key_pair(),
        listen=listen,
        announce=arguments.announce,
        bootstrap=[Multiaddr(text) for text in arguments.bootstrap],
        topic=arguments.topic,
        file=arguments.file,
        save=arguments.save,
        stay=arguments.stay,
        patience=None if arguments.stay or interactive else arguments.patience,
        trace=arguments.trace,
        region=arguments.region,
        metrics=arguments.metrics,
        verbose=arguments.verbose,
    )
    output = JsonOutput(config.topic) if arguments.json else PlainOutput()
    return run_until_interrupted(run_node, config, output, sys.stdin.fileno())
