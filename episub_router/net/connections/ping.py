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
from episub_router.net.tasks import Tasks
from episub_router.util.connections import is_connected
from episub_router.util.load_aware import load_aware

PING_PROTOCOL = TProtocol("/ipfs/ping/1.0.0")
_PING_LENGTH = 32

PINGS_PER_SECOND = 4.0
"""Over all topics; chosen: a ping costs 5 ms of CPU, so 2 % of a core; and RTTs that are measured
side by side disturb each other."""

_TIMEOUT = 2.0
"""Seconds; chosen: above any RTT that is worth knowing."""

_LONGEST_WAIT = 16.0
"""Seconds until a peer is measured; requests beyond fail at once; chosen: 64 peers."""

Report: TypeAlias = Callable[[RemotePeer, float | None], None]
"""Is called with the round trip in seconds, or None where it couldn't be measured."""


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
    budget, and wait for it."""

    host: IHost
    counters: Counters
    tasks: Tasks
    _next: float = 0.0
    """When there is time for another ping."""

    def request(self, peer: RemotePeer, report: Report) -> None:
        """Measure `peer`, and `report` it. Where too many wait it fails at once."""
        now = trio.current_time()
        rtt = shortest_rtt(self.host, peer.id)
        if rtt is not None:
            report(peer, rtt)
        elif self._next > now + _LONGEST_WAIT:
            self._end(peer, report, None)
        else:
            at = max(now, self._next)
            self._next = at + 1 / PINGS_PER_SECOND
            self.tasks.start(self._measure, peer, report, at)

    async def _measure(self, peer: RemotePeer, report: Report, at: float) -> None:
        await trio.sleep_until(at)
        rtt = None
        async with load_aware(_TIMEOUT):
            with suppress(Exception):
                rtt = await measure_rtt(self.host, peer.id)
        self._end(peer, report, rtt)

    def _end(self, peer: RemotePeer, report: Report, rtt: float | None) -> None:
        if rtt is None:
            self.counters.add(Reason.PINGS_FAILED)
        report(peer, rtt)
