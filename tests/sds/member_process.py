"""A member of `test_twenty_hosts`: a host in a process of its own, driven over pipes.

Reads commands from standard input, one per line (`dial ADDRESS`, `send TEXT`, `log`), and
writes events to standard output, one JSON object per line. Everything delivered is appended
to a file before the next message is asked for, as an application would.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import trio
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11
from multiaddr import Multiaddr

from episub_router import EpisubRouter
from episub_router.cli.arguments import add_host_arguments
from episub_router.cli.host import running_pubsub
from episub_router.sds import SdsChannel, SdsParams, SqliteStore
from tests.hosts import bounded_gossipsub

PARAMS = {
    "episub": SdsParams(),
    # What stock gossipsub loses on a busy machine is found and sent again soon.
    "gossipsub": SdsParams(
        resend_interval=2.0, heads_interval=10.0, sync_interval=20.0, confirm_delay=1.0
    ),
}


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def last_cursor(path: Path) -> str | None:
    lines = path.read_text().splitlines() if path.exists() else []
    return str(json.loads(lines[-1])["cursor"]) if lines else None


async def deliver(channel: SdsChannel, path: Path) -> None:
    with path.open("a") as file:
        async for message in channel.stream(after=last_cursor(path)):
            if message.sender == channel.sender_id:
                continue
            record = {
                "id": message.id,
                "cursor": message.cursor,
                "missing": message.missing,
                "after": json.loads(message.content)["after"],
            }
            file.write(json.dumps(record) + "\n")
            file.flush()


async def obey(channel: SdsChannel, host: object, own: list[str]) -> None:
    buffer = b""
    stdin = trio.lowlevel.FdStream(0)
    async for data in stdin:
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            command, _, argument = line.decode().partition(" ")
            if command == "dial":
                slow = True
                while slow:  # a member without links gets nothing
                    with trio.move_on_after(10) as dialling:
                        await host.connect(info_from_p2p_addr(Multiaddr(argument)))  # type: ignore[attr-defined]
                    slow = dialling.cancelled_caught
                say(event="dialled")
            elif command == "send":
                seen = [item.id for item in channel.log]
                content = json.dumps({"text": argument, "after": seen[-5:]})
                receipt = await channel.send(content.encode())
                own.append(receipt.id)
                say(event="sent", id=receipt.id)
            elif command == "log":
                say(event="log", ids=[item.id for item in channel.log], stats=channel.stats)


async def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    add_host_arguments(parser)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--router", choices=["episub", "gossipsub"], required=True)
    args = parser.parse_args(arguments)
    args.key = args.dir / "key"
    store = SqliteStore(args.dir / "state.db")
    router = EpisubRouter() if args.router == "episub" else bounded_gossipsub(PROTOCOL_ID_V11)
    async with (
        running_pubsub(args, router) as pubsub,
        SdsChannel(pubsub, "twenty", store=store, params=PARAMS[args.router]) as channel,
        trio.open_nursery() as nursery,
    ):
        (address,) = pubsub.host.get_addrs()
        say(event="ready", address=str(address), id=str(pubsub.host.get_id()))
        nursery.start_soon(deliver, channel, args.dir / "delivered.jsonl")
        await obey(channel, pubsub.host, [])
        nursery.cancel_scope.cancel()
