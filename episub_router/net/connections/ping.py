"""Round trips, for E10 and E18: the kernel's, or where it has none, over /ipfs/ping/1.0.0.

py-libp2p's own ping service rounds to whole milliseconds, which on a LAN makes all peers
equally near.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import trio
from libp2p.abc import IHost, INetStream
from libp2p.custom_types import TProtocol
from libp2p.io.utils import read_exactly
from libp2p.peer.id import ID
from libp2p.protocol_muxer.multiselect_client import MULTISELECT_PROTOCOL_ID
from libp2p.protocol_muxer.multiselect_communicator import MultiselectCommunicator

from episub_router.net.connections.kernel import shortest_rtt
from episub_router.net.counters import Counters, Reason
from episub_router.net.peers import RemotePeer
from episub_router.util.connections import is_connected
from episub_router.util.load_aware import load_aware

PING_PROTOCOL = TProtocol("/ipfs/ping/1.0.0")
_PING_LENGTH = 32

PINGS_PER_SECOND = 4.0
"""Over all topics; chosen: a ping costs 5 ms of CPU, so 2 % of a core; and RTTs that are measured
side by side disturb each other."""

_TIMEOUT = 2.0
"""Seconds; chosen: above any RTT that is worth knowing."""

_MAX_REQUESTS = 64
"""Peers measured or waiting for it; requests beyond fail at once; chosen."""

Report: TypeAlias = Callable[[RemotePeer, float | None], None]
"""Is called with the round trip in seconds, or None where it couldn't be measured."""

_Request: TypeAlias = tuple[RemotePeer, Report]


async def measure_rtt(host: IHost, peer: ID) -> float:
    """The round trip to `peer` in seconds, over a stream opened for it.

    Raises ConnectionError for a peer that isn't connected, what py-libp2p raises when the stream
    can't be opened or breaks, and ValueError for a wrong answer. Opening the stream isn't part of
    the measurement.
    """
    if not is_connected(host, peer):  # it would be dialled
        raise ConnectionError(f"{peer} is not connected")
    stream = await host.get_network().new_stream(peer)
    try:
        await _negotiate(stream)
        sent = secrets.token_bytes(_PING_LENGTH)
        start = trio.current_time()
        await stream.write(sent)
        echoed = await read_exactly(stream, _PING_LENGTH)
        rtt = trio.current_time() - start
        if echoed != sent:
            raise ValueError(f"{peer} echoed a ping wrongly")
        await stream.close()
        return rtt
    except BaseException:
        with trio.CancelScope(shield=True), trio.move_on_after(1):
            await stream.reset()
        raise


async def _negotiate(stream: INetStream) -> None:
    """Agree on pings. `IHost.new_stream` would log an error where the peer goes meanwhile."""
    communicator, said = MultiselectCommunicator(stream), [MULTISELECT_PROTOCOL_ID, PING_PROTOCOL]
    for line in said:
        await communicator.write(line)
    if (answer := [await communicator.read() for _ in said]) != said:
        raise ValueError(f"{said} was answered with {answer}")
    stream.set_protocol(PING_PROTOCOL)


@dataclass(eq=False)
class Pinger:
    """Answers each request with a round trip: the kernel's at once. Others are measured within a
    budget, and wait for it; requests for a peer that is being measured share its measurement."""

    host: IHost
    counters: Counters

    def __post_init__(self) -> None:
        self._wanted, self._requests = trio.open_memory_channel[_Request](_MAX_REQUESTS)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            async for peer, report in self._requests:
                nursery.start_soon(self._measure, peer, report)
                await trio.sleep(1 / PINGS_PER_SECOND)

    def request(self, peer: RemotePeer, report: Report) -> None:
        """Measure `peer`, and `report` it. Where too many wait it fails at once."""
        rtt = shortest_rtt(self.host, peer.id)
        if rtt is not None:
            report(peer, rtt)
        elif not peer.is_measured:
            peer.is_measured = True
            try:
                self._wanted.send_nowait((peer, report))
            except trio.WouldBlock:
                self._end(peer, report, None)

    async def _measure(self, peer: RemotePeer, report: Report) -> None:
        rtt = None
        async with load_aware(_TIMEOUT):
            with suppress(Exception):
                rtt = await measure_rtt(self.host, peer.id)
        self._end(peer, report, rtt)

    def _end(self, peer: RemotePeer, report: Report, rtt: float | None) -> None:
        peer.is_measured = False
        if rtt is None:
            self.counters.add(Reason.PINGS_FAILED)
        report(peer, rtt)
