"""`episub store`: a store node that keeps and serves the history of topics."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

import trio

from episub_router.cli.host import add_host_arguments, episub, reported_errors, running_pubsub
from episub_router.sds import Retention, SqliteStore, StoreNode

_REPORT_INTERVAL = 60.0


def add_parser(commands: Any) -> None:
    """Add `store` to the commands of an argument parser."""
    parser = commands.add_parser(
        "store",
        help="keep and serve the history of topics",
        description="Keeps every message of every channel of the topics, and serves them over "
        "/sds/store/1.0.0.",
    )
    defaults = Retention()
    parser.add_argument("topic", nargs="+", help="topics whose channels are kept")
    parser.add_argument("--db", required=True, help="file that keeps them")
    parser.add_argument(
        "--max-age",
        type=float,
        default=defaults.max_age / 86_400,
        help="days (default: %(default)g)",
    )
    parser.add_argument(
        "--max-size", type=int, default=defaults.max_bytes, help="bytes (default: %(default)d)"
    )
    add_host_arguments(parser)
    parser.set_defaults(run=_run, refuse=parser.error)


def _run(args: argparse.Namespace) -> int:
    if not args.key:
        args.refuse("--key is needed: the file belongs to one identity")
    retention = Retention(args.max_age * 86_400, args.max_size)
    with reported_errors(), closing(SqliteStore(args.db, retention)) as store:
        trio.run(_keep, args, store)
    return 0


async def _keep(args: argparse.Namespace, store: SqliteStore) -> None:
    async with running_pubsub(args, episub(args)) as pubsub:
        for address in pubsub.host.get_addrs():
            print(f"* listening on {address}", flush=True)
        async with StoreNode(pubsub.host, pubsub, store, topics=args.topic) as keeper:
            while True:
                for (topic, channel), count in keeper.channels.items():
                    print(f"* {topic}/{channel}: {count} messages in the index", flush=True)
                await trio.sleep(_REPORT_INTERVAL)
