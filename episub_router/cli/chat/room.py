"""The run of `episub chat`: what is typed goes to the room, and what others say is shown."""

from __future__ import annotations

import shlex
import signal
from argparse import Namespace
from collections.abc import Callable

import trio
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubRouter, NotJoined
from episub_router.cli.chat.lines import JOINED, LEFT, Line, MemberNames, line_in
from episub_router.cli.host import running_pubsub
from episub_router.cli.node.lines import for_each_line
from episub_router.cli.sight import report_events
from episub_router.host import frames_arrive
from episub_router.sds import (
    Acknowledged,
    Receipt,
    SdsChannel,
    SqliteStore,
    StoreFull,
    StoreFullError,
)

MAX_LINE = 50_000
"""Bytes; SDS takes messages up to some 100 kB, and quoting as JSON makes a line longer."""
HISTORY = 20
"""Lines of the room that are shown again at the start, of those that `--db` keeps."""
_LOG = 1000
"""Messages that /log looks at."""
_LONELY = 10.0
"""Seconds without a neighbour after which the reasons are shown."""
_FULL_PAUSE = 5.0
"""Seconds until a message that found no room on the disk is tried again."""


async def chat(args: Namespace, store: SqliteStore, input_fd: Callable[[], int]) -> int:
    """Take part in the room that `args` name until the input ends; the exit status.

    `input_fd` gives the input's descriptor, once there is a host. Raises CommandError for
    a key that can't be used, OSError for an occupied port, StoreError for the store.
    """
    router = EpisubRouter(bootstrap=args.bootstrap)
    async with running_pubsub(args, router) as pubsub:
        for address in pubsub.host.get_addrs():
            join = ["episub", "chat", f"--room={args.room}", "--bootstrap", str(address)]
            _say(f"* others join with: {shlex.join(join)}")
        async with trio.open_nursery() as nursery:
            if args.verbose:
                nursery.start_soon(report_events, router.events(args.room), _note)
            status = await _take_part(args, pubsub, router, store, input_fd())
            nursery.cancel_scope.cancel()
    return status


async def _take_part(
    args: Namespace, pubsub: Pubsub, router: EpisubRouter, store: SqliteStore, input_fd: int
) -> int:
    async with SdsChannel(pubsub, args.room, store=store) as channel:
        async with trio.open_nursery() as nursery:
            if args.bootstrap:
                nursery.start_soon(_say_why_alone, router, args.room)
            status = await Room(channel, args.name).run(input_fd)
            nursery.cancel_scope.cancel()
        neighbors = tuple(router.mesh.get(args.room, ()))
    await frames_arrive(pubsub.host, router, neighbors)
    return status


async def _say_why_alone(router: EpisubRouter, room: str) -> None:
    try:
        await router.joined(room, timeout=_LONELY)
    except NotJoined as error:
        _say(f"* no neighbour after {_LONELY:g} s: {'; '.join(error.reasons)}")


class Room:
    """One member's view of the room, on the terminal."""

    def __init__(self, channel: SdsChannel, name: str) -> None:
        self._channel = channel
        self._name = name
        self._members = MemberNames()
        self._shown: set[str] = set()
        """Ids of what the history showed; at most HISTORY."""
        self._receipt: Receipt | None = None
        self._confirmed = ""
        self._status = 0

    async def run(self, input_fd: int) -> int:
        """Until /quit, the end of the input or Ctrl-C; the exit status."""
        await self._show_history()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._heed_signals, nursery)
            await self._send(Line(self._name, notice=JOINED))

            async def heed(line: bytes, is_whole: bool) -> None:
                if await self._heed(line if is_whole else None):
                    nursery.cancel_scope.cancel()
                    await trio.lowlevel.checkpoint()

            await for_each_line(input_fd, MAX_LINE, heed)
            nursery.cancel_scope.cancel()
        await self._send(Line(self._name, notice=LEFT))
        return self._status

    async def _show_history(self) -> None:
        newest = await self._channel.latest(limit=_LOG)
        lines = [message for message in newest if not line_in(message.content).notice]
        for message in reversed(lines[:HISTORY]):
            self._shown.add(message.id)
            _say(self._members.shown(message))

    async def _show(self) -> None:
        while True:
            try:
                message = await anext(self._channel)
            except StoreFullError:
                # That the one before is done with can't be noted yet.
                await trio.sleep(_FULL_PAUSE)
                continue
            if message.id not in self._shown:
                _say(self._members.shown(message))

    async def _watch(self) -> None:
        full = False
        async for event in self._channel.events():
            if isinstance(event, Acknowledged):
                receipt = self._receipt
                if receipt and receipt.id == event.message_id != self._confirmed:
                    self._confirmed = event.message_id
                    _say(f"* received, first by {self._members.name(event.by)}")
            elif isinstance(event, StoreFull) and not full:
                full = True
                _say("* the disk is full: what others say is shown once there is room")

    async def _heed_signals(self, nursery: trio.Nursery) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self._status = 128 + number
                nursery.cancel_scope.cancel()

    async def _heed(self, line: bytes | None) -> bool:
        """Do what a line of the input says; whether that is to leave."""
        if line is None:
            _say(f"* not sent: a line has at most {MAX_LINE} bytes")
            return False
        text = line.decode(errors="replace").strip()
        if text == "/quit":
            return True
        if text == "/log":
            for message in await self._channel.history(limit=_LOG):
                if not line_in(message.content).notice:
                    _say(f"  {self._members.shown(message)}")
        elif text == "/who":
            self._who()
        elif text.startswith("/"):
            _say(f"* no such command: {text.split()[0]} (/who, /log, /quit)")
        elif text:
            self._receipt = await self._send(Line(self._name, text)) or self._receipt
        return False

    def _who(self) -> None:
        have = self._receipt.acked_by if self._receipt else ()
        others = dict.fromkeys((*self._members.all(), *have))
        others.pop(self._channel.sender_id, None)
        for member in others:
            has = " has your last line" if member in have else ""
            _say(f"* {self._members.name(member)}{has}")
        if not others:
            _say("* nobody else so far")

    async def _send(self, line: Line) -> Receipt | None:
        try:
            return await self._channel.send(line.encoded())
        except StoreFullError as error:
            if not line.notice:
                _say(f"* not sent: {error}")
        except ValueError as error:
            _say(f"* not sent: {error}")
        return None


def _note(text: str) -> None:
    _say(f"* {text}")


def _say(text: str) -> None:
    print(text, flush=True)
