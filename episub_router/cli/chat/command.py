"""`episub chat`: a chat room that misses no message, even across crashes and restarts."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from episub_router.cli.arguments import add_host_arguments, topic


def add_parser(commands: Any) -> None:
    """Add `chat` to the commands of an argument parser."""
    parser = commands.add_parser(
        "chat",
        help="a chat room over SDS",
        description="Type a line to send it. /who lists the members, and which of them have your "
        "last line, /log shows the room in the order that all members agree on, /quit leaves. "
        "With --db and --key the room survives being killed.",
    )
    parser.add_argument("--room", default="lobby", type=topic, help="topic (default: %(default)s)")
    parser.add_argument("--name", default="anonymous", help="shown to others")
    parser.add_argument("--db", help="file that keeps the room")
    add_host_arguments(parser)
    parser.set_defaults(run=_run, refuse=parser.error)


def _run(args: argparse.Namespace) -> int:
    if args.db and not args.key:
        args.refuse("--db needs --key: the room belongs to one identity")
    # py-libp2p takes a second to import; --help and wrong arguments needn't wait for it.
    from contextlib import closing

    from episub_router.cli.chat.room import chat
    from episub_router.cli.farewell import run_until_interrupted
    from episub_router.cli.host import reported_errors
    from episub_router.sds import MemoryStore, SqliteStore

    with reported_errors(), closing(SqliteStore(args.db) if args.db else MemoryStore()) as store:
        return run_until_interrupted(chat, args, store, sys.stdin.fileno)
