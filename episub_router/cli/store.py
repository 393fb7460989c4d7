"""`episub store`: a store node that keeps and serves the history of topics."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from episub_router.cli.arguments import add_host_arguments, add_metrics, positive, topic, whole

if TYPE_CHECKING:
    from episub_router.sds import SqliteStore

_REPORT_INTERVAL = 60.0
_MAX = 2**63 - 1
"""SQLite's largest number."""


def add_parser(commands: Any) -> None:
    """Add `store` to the commands of an argument parser."""
    parser = commands.add_parser(
        "store",
        help="keep and serve the history of topics",
        description="Keeps every message of every channel of the topics, and serves them over "
        "/sds/store.",
    )
    parser.add_argument("topic", nargs="+", type=topic, help="topics whose channels are kept")
    parser.add_argument("--db", required=True, help="file that keeps them")
    parser.add_argument("--max-age", type=positive("days"), help="days (default: 30)")
    parser.add_argument("--max-size", type=whole(1, _MAX), help="bytes (default: 4 GiB)")
    parser.add_argument(
        "--max-messages", type=whole(1, _MAX), help="how many (default: any number)"
    )
    add_host_arguments(parser)
    add_metrics(parser)
    parser.set_defaults(run=_run, refuse=parser.error)


def _run(args: argparse.Namespace) -> int:
    if not args.key:
        args.refuse("--key is needed: the file belongs to one identity")
    # py-libp2p takes a second to import; --help and wrong arguments needn't wait for it.
    from contextlib import closing

    from episub_router.cli.farewell import run_until_interrupted
    from episub_router.cli.host import reported_errors
    from episub_router.sds import Retention, SqliteStore

    usual = Retention()
    retention = Retention(
        usual.max_age if args.max_age is None else args.max_age * 86_400,
        usual.max_bytes if args.max_size is None else args.max_size,
        args.max_messages,
    )
    with reported_errors(), closing(SqliteStore(args.db, retention)) as store:
        run_until_interrupted(_keep, args, store)
    return 0


async def _keep(args: argparse.Namespace, store: SqliteStore) -> None:
    import trio

    from episub_router import EpisubRouter
    from episub_router.cli.host import running_pubsub, served_metrics
    from episub_router.cli.sight import report_events
    from episub_router.sds import StoreNode

    router = EpisubRouter(bootstrap=args.bootstrap)
    async with (
        running_pubsub(args, router) as pubsub,
        trio.open_nursery() as nursery,
        served_metrics(args.metrics, pubsub, router),
    ):
        for address in pubsub.host.get_addrs():
            print(f"* listening on {address}", flush=True)
        if args.verbose:
            for topic in args.topic:
                nursery.start_soon(report_events, router.events(topic), _note)
        async with StoreNode(pubsub.host, pubsub, store, topics=args.topic) as keeper:
            while True:
                for (topic, channel), count in keeper.channels.items():
                    print(f"* {topic}/{channel}: {count} messages in the index", flush=True)
                await trio.sleep(_REPORT_INTERVAL)


def _note(text: str) -> None:
    print(f"* {text}", flush=True)
