"""`episub store`: a store node that keeps and serves the history of topics."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import trio

from episub_router.cli.host import add_host_arguments, running_host
from episub_router.sds import Retention, SqliteStore, StoreError, StoreNode

_REPORT_INTERVAL = 60.0


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
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
    parser.set_defaults(handler=lambda args: trio.run(run, args))


async def run(args: argparse.Namespace) -> int:
    """The command. Ends with SIGINT."""
    if not args.key:
        print("store: --key is needed: the file belongs to one identity", file=sys.stderr)
        return 2
    try:
        store = SqliteStore(args.db, Retention(args.max_age * 86_400, args.max_size))
    except StoreError as error:
        print(f"store: {error}", file=sys.stderr)
        return 1
    try:
        async with running_host(args) as node:
            for address in node.host.get_addrs():
                print(f"* listening on {address}", flush=True)
            async with StoreNode(node.host, node.pubsub, store, topics=args.topic) as keeper:
                while True:
                    for (topic, channel), count in keeper.channels.items():
                        print(f"* {topic}/{channel}: {count} messages in the index", flush=True)
                    await trio.sleep(_REPORT_INTERVAL)
    except StoreError as error:
        print(f"store: {error}", file=sys.stderr)
        return 1
    finally:
        store.close()


def main() -> int:
    """`python -m episub_router.cli.store`."""
    parser = argparse.ArgumentParser(prog="episub")
    add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["store", *sys.argv[1:]])
    try:
        return int(args.handler(args))
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
