"""A participant of an SDS channel over Episub, with `episub node`'s lines and events.

`/log` has it print its whole log in the total order. A `published` line says that the message
survives a crash from then on.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from typing import Any

import trio
from libp2p.peer.id import ID

from episub_router import EpisubRouter
from episub_router.cli.arguments import add_host_arguments
from episub_router.cli.host import running_pubsub
from episub_router.cli.node.lines import for_each_line
from episub_router.cli.node.run import MAX_LINE
from episub_router.cli.sight import report_neighbors
from episub_router.protocol.effects import DownReason
from episub_router.sds import SdsChannel, SqliteStore

_WHOLE_LOG = 1_000_000
"""Messages; more than a run makes."""


def main(arguments: list[str]) -> None:
    """Run until the input ends."""
    parser = argparse.ArgumentParser(prog="interop.testbed.nodes.sds", description=__doc__)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--db", required=True)
    add_host_arguments(parser)
    args = parser.parse_args(arguments)
    with closing(SqliteStore(args.db)) as store:
        trio.run(_serve, args, store)


async def _serve(args: argparse.Namespace, store: SqliteStore) -> None:
    router = EpisubRouter(bootstrap=args.bootstrap)
    async with running_pubsub(args, router) as pubsub:
        _tell("listening", peer=str(pubsub.my_id))
        async with SdsChannel(pubsub, args.topic, store=store) as channel:
            member = _Member(channel)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.show)
                nursery.start_soon(report_neighbors, router, args.topic, _joined, _parted)
                await for_each_line(sys.stdin.fileno(), MAX_LINE, member.obey)
                nursery.cancel_scope.cancel()


class _Member:
    """The application."""

    def __init__(self, channel: SdsChannel) -> None:
        self._channel = channel
        self._shown = 0

    async def obey(self, line: bytes, is_whole: bool) -> None:
        if line == b"/log":
            messages = await self._channel.history(limit=_WHOLE_LOG)
            _tell("log", texts=[message.content.decode() for message in messages])
        elif line and is_whole:
            seen = self._shown
            await self._channel.send(line)
            _tell("published", text=line.decode(), after=seen)

    async def show(self) -> None:
        async for message in self._channel:
            text = message.content.decode()
            _tell("delivered", text=text, missing=list(message.missing))
            self._shown += 1


def _joined(peer: ID, _: int) -> None:
    _tell("peer-up", peer=str(peer))


def _parted(peer: ID, _: int, reason: DownReason | None) -> None:
    _tell("peer-down", peer=str(peer), reason=reason.value if reason else "")


def _tell(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
