"""`episub chat`: a chat room that misses no message, even across crashes and restarts."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from typing import Any

import trio

from episub_router.cli.host import add_host_arguments, episub, reported_errors, running_pubsub
from episub_router.sds import (
    Acknowledged,
    ChannelMessage,
    MemoryStore,
    SdsChannel,
    SqliteStore,
    Store,
)


def add_parser(commands: Any) -> None:
    """Add `chat` to the commands of an argument parser."""
    parser = commands.add_parser(
        "chat",
        help="a chat room over SDS",
        description="Type a line to send it. /who lists the members that have your last line, "
        "/log shows the room in the order that all members agree on, /quit leaves. With --db and "
        "--key the room survives being killed.",
    )
    parser.add_argument("--room", default="lobby", help="topic (default: %(default)s)")
    parser.add_argument("--name", default="anonymous", help="shown to others")
    parser.add_argument("--db", help="file that keeps the room")
    add_host_arguments(parser)
    parser.set_defaults(run=_run, refuse=parser.error)


def _run(args: argparse.Namespace) -> int:
    if args.db and not args.key:
        args.refuse("--db needs --key: the room belongs to one identity")
    with reported_errors(), closing(SqliteStore(args.db) if args.db else MemoryStore()) as store:
        trio.run(_chat, args, store)
    return 0


async def _chat(args: argparse.Namespace, store: Store) -> None:
    async with running_pubsub(args, episub(args)) as pubsub:
        for address in pubsub.host.get_addrs():
            print(f"* others join with --bootstrap {address}", flush=True)
        async with (
            SdsChannel(pubsub, args.room, store=store) as channel,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_show, channel)
            nursery.start_soon(_confirm, channel)
            await _read(channel, args.name)
            nursery.cancel_scope.cancel()


async def _show(channel: SdsChannel) -> None:
    async for message in channel:
        print(line_of(message), flush=True)


async def _confirm(channel: SdsChannel) -> None:
    last = ""
    async for event in channel.events():
        if isinstance(event, Acknowledged) and event.message_id != last:
            last = event.message_id
            print(f"* received, first by ...{event.by[-6:]}", flush=True)


async def _read(channel: SdsChannel, name: str) -> None:
    receipt = None
    while True:
        line = await trio.to_thread.run_sync(  # type: ignore[call-arg]
            sys.stdin.readline, abandon_on_cancel=True
        )
        text = line.strip()
        if not line or text == "/quit":
            return
        if text == "/log":
            for message in await channel.history(limit=1000):
                print(f"  {line_of(message)}", flush=True)
        elif text == "/who":
            known = "nothing sent yet" if receipt is None else f"{len(receipt.acked_by)} members"
            print(f"* {known}", flush=True)
        elif text.startswith("/"):
            print(f"* no such command: {text.split()[0]} (/who, /log, /quit)", flush=True)
        elif text:
            receipt = await channel.send(json.dumps({"name": name, "text": text}).encode())


def line_of(message: ChannelMessage) -> str:
    """What the room shows of a message, whatever it holds."""
    try:
        said = json.loads(message.content)
        name, text = str(said["name"]), str(said["text"])
    except (ValueError, TypeError, KeyError, RecursionError):
        name, text = "?", repr(message.content)
    # What others send must not drive this terminal.
    line = "".join(c if c.isprintable() else "�" for c in f"{name}: {text}")
    return f"{line}  [{len(message.missing)} lost before this]" if message.missing else line
