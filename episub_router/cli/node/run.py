"""The run of `episub node`: one host in one topic, until its input ends or a signal stops it."""

from __future__ import annotations

import signal
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.peer.id import ID

from episub_router import (
    EpisubParams,
    EpisubRouter,
    LargeProgress,
    LargeSent,
    NeighborDown,
    NeighborUp,
    NotJoined,
    PublishError,
)
from episub_router.cli.arguments import CommandError
from episub_router.cli.host import episub_host, served_metrics
from episub_router.cli.node.lines import for_each_line
from episub_router.cli.node.output import PlainOutput
from episub_router.cli.sight import report_events, report_neighbors
from episub_router.host import FAREWELL, EpisubHost, frames_arrive, running
from episub_router.net.events import EventStream
from episub_router.protocol.effects import DownReason
from episub_router.trace.tracer import Tracer

MAX_LINE = 1_000_000
"""Bytes: an RPC holds 1 MiB, with a signature and the frame."""

_MAX_QUEUED = 16
"""Frames waiting for a neighbour, of the 32 that Pubsub holds, above which input waits."""
_FILE_TIME = 60.0
"""Seconds that a file may take to leave; chosen: 16 MiB to two neighbours at 5 Mbit/s. One that has
all of it passes it on."""
_LONELY = 10.0
"""Seconds between notes on why there is no neighbour."""


async def run_node(args: Namespace, output: PlainOutput, input_fd: int) -> int:
    """Run as `args` say until the input ends (unless `stay`), or a signal comes; the exit status.

    Raises OSError if the host can't start, NodeStopped if it dies, CommandError if it finds no
    neighbour to publish to. `patience` is None where input waits for one for ever.
    """
    with _tracer(args.trace, args.region) as tracer:
        router = EpisubRouter(bootstrap=args.bootstrap, tracer=tracer)
        node = episub_host(args, router)
        async with running(node), served_metrics(args.metrics, node.pubsub, router):
            status = await _Session(args, output, node).run(input_fd)
        if node.pubsub.trace is not None:
            node.pubsub.trace.lived("leave")
    return status


def _tracer(path: Path | None, region: str) -> AbstractContextManager[Tracer | None]:
    if path is None:
        return nullcontext()
    try:
        return Tracer(path, name=path.name.split(".")[0], region=region)
    except OSError as error:
        raise CommandError(f"--trace: {error}") from error


class _Session:
    def __init__(self, args: Namespace, output: PlainOutput, node: EpisubHost) -> None:
        self._args = args
        self._output = output
        self._node = node
        self._has_neighbor = trio.Event()
        self._was_sent = trio.Event()
        """Set once a neighbour was sent all of a large message."""
        self._status = 0
        self._nursery: trio.Nursery | None = None

    async def run(self, input_fd: int) -> int:
        node, args = self._node, self._args
        addresses = [str(address) for address in node.addresses]
        events = node.router.events(args.topic)
        subscription = await node.pubsub.subscribe(args.topic)
        self._output.listening(str(node.id), addresses, args.topic)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._print_messages, subscription)
            if args.verbose:
                shown = (NeighborUp, NeighborDown, LargeProgress, LargeSent)
                nursery.start_soon(report_events, events, self._output.note, shown)
            nursery.start_soon(self._watch_large, node.router.events(args.topic))
            nursery.start_soon(
                report_neighbors, node.router, args.topic, self._joined, self._parted
            )
            nursery.start_soon(self._heed_signals)
            if args.file is not None:
                await self._publish_file(args.file)
            await for_each_line(input_fd, MAX_LINE, self._publish)
            if not args.stay:
                nursery.cancel_scope.cancel()
        await self._leave()
        return self._status

    async def _publish(self, line: bytes, is_whole: bool) -> None:
        if not is_whole:
            self._fail(line, f"a line of more than {MAX_LINE} bytes: see --file")
        elif line:
            await self._first_neighbor()
            try:
                await self._node.pubsub.publish(self._args.topic, line)
            except PublishError as error:
                self._fail(line, str(error))
                return
            self._output.published(line)
            await self._node.router.wait_for_room(_MAX_QUEUED)

    def _fail(self, line: bytes, error: str) -> None:
        self._status = 1
        self._output.failed(line, error)

    async def _publish_file(self, path: Path) -> None:
        try:
            data = await trio.Path(path).read_bytes()
        except OSError as error:
            raise CommandError(f"--file: {error}") from error
        await self._first_neighbor()
        try:
            await self._node.pubsub.publish(self._args.topic, data)
        except PublishError as error:
            raise CommandError(f"--file {path}: {error}") from error
        self._output.published(path)
        if len(data) >= EpisubParams().broadcast.piece_threshold:
            with trio.move_on_after(_FILE_TIME):
                await self._was_sent.wait()

    async def _watch_large(self, events: EventStream) -> None:
        async for event in events:
            if isinstance(event, LargeProgress):
                self._output.receiving(str(event.source), event.received, event.size)
            elif isinstance(event, LargeSent) and event.neighbors:
                self._was_sent.set()
                self._output.sent(event.neighbors, event.size)

    async def _first_neighbor(self) -> None:
        if self._has_neighbor.is_set():
            return
        self._output.note("waiting for a first neighbour")
        patience = self._args.patience
        while not self._has_neighbor.is_set():
            try:
                await self._node.router.joined(self._args.topic, timeout=patience or _LONELY)
                return
            except NotJoined as error:
                why = "; ".join(error.reasons)
                if patience:
                    raise CommandError(
                        f"nothing was published: no neighbour within {patience:g} s: {why}"
                    ) from error
                self._output.note(f"no neighbour yet: {why}")

    async def _print_messages(self, subscription: ISubscriptionAPI) -> None:
        while True:
            message = await subscription.get()
            source = ID(message.from_id)
            if source == self._node.id:
                continue
            if self._args.save is None:
                self._output.delivered(str(source), message.data)
                continue
            path = self._args.save / f"{source}-{message.seqno.hex()}"
            try:
                await trio.Path(path.parent).mkdir(parents=True, exist_ok=True)
                await trio.Path(path).write_bytes(message.data)
            except OSError as error:
                raise CommandError(f"--save: {error}") from error
            self._output.delivered(str(source), path)

    def _joined(self, peer: ID, count: int) -> None:
        self._output.joined(str(peer), count)
        self._has_neighbor.set()

    def _parted(self, peer: ID, count: int, reason: DownReason | None) -> None:
        self._output.parted(str(peer), count, reason)

    async def _heed_signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self._status = 128 + number
                assert self._nursery is not None
                self._nursery.cancel_scope.cancel()

    async def _leave(self) -> None:
        """Say goodbye, and stay until the neighbours have everything that was sent."""
        neighbors = list(self._node.router.mesh.get(self._args.topic, ()))
        with trio.move_on_after(FAREWELL):
            await self._node.router.wait_for_room(0)
            await self._node.pubsub.unsubscribe(self._args.topic)
        await frames_arrive(self._node.host, self._node.router, neighbors)
