"""Round trips over /ipfs/ping/1.0.0, for E10 and E18.

py-libp2p's own ping service rounds to whole milliseconds, which on a LAN makes all peers
equally near.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

import trio
from libp2p.abc import IHost
from libp2p.custom_types import TProtocol
from libp2p.io.utils import read_exactly
from libp2p.peer.id import ID

from episub_router.net.counters import Counters, Reason
from episub_router.net.peers import PeerTable, RemotePeer
from episub_router.util.load_aware import load_aware

PING_PROTOCOL = TProtocol("/ipfs/ping/1.0.0")
_PING_LENGTH = 32

PINGS_PER_SECOND = 4.0
"""Over all topics; chosen: a ping costs 5 ms of CPU, so 2 % of a core."""

_TIMEOUT = 2.0
"""Seconds; chosen: above any RTT that is worth knowing."""

_CONCURRENCY = 4
"""Streams; chosen: RTTs measured side by side disturb each other."""

_MAX_REQUESTS = 64
"""Peers measured or waiting for it; requests beyond fail at once; chosen."""

_PAUSE = 10.0
"""Seconds of rest after a ping that found the event loop behind. Measured: while 50 hosts in one
process join, every ping times out and takes CPU from the dials."""

_TRIES = 3
"""Pings for one measurement while they find the event loop behind. Chosen: such a ping measures how
busy this host is, and near neighbours that look far have nearer ones looked for."""


async def measure_rtt(host: IHost, peer: ID) -> float:
    """The round trip to `peer` in seconds, over a stream opened for it.

    Raises what py-libp2p raises when the stream can't be opened or breaks, and ValueError for
    a wrong echo. Opening the stream isn't part of the measurement.
    """
    stream = await host.new_stream(peer, [PING_PROTOCOL])
    try:
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


class Pinger:
    """Measures on request, within a budget, and reports each RTT to `peers`, once per request.

    Requests beyond the budget wait; the core has few of them under way at a time.
    Requests for a peer that is already being measured share its measurement.
    """

    def __init__(self, host: IHost, counters: Counters, peers: PeerTable) -> None:
        self._host = host
        self._counters = counters
        self._peers = peers
        self._next = -float("inf")
        """When the budget next allows a ping."""
        self._wanted, self._requests = trio.open_memory_channel[RemotePeer](_MAX_REQUESTS)

    async def run(self) -> None:
        """Measure until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(_CONCURRENCY):
                nursery.start_soon(self._measure_some)

    def request(self, peer: RemotePeer) -> None:
        """Measure `peer`. Where too many wait it fails at once."""
        if peer.is_measured:
            return
        peer.is_measured = True
        try:
            self._wanted.send_nowait(peer)
        except trio.WouldBlock:
            self._report(peer, None)

    async def _measure_some(self) -> None:
        async for peer in self._requests.clone():
            self._report(peer, await self._measure(peer.id))

    def _report(self, peer: RemotePeer, rtt: float | None) -> None:
        peer.is_measured = False
        if rtt is None:
            self._counters.add(Reason.PINGS_FAILED)
        self._peers.note_rtt(peer, rtt)

    async def _measure(self, target: ID) -> float | None:
        rtt = None
        for _ in range(_TRIES):
            start = max(self._next, trio.current_time())
            self._next = start + 1 / PINGS_PER_SECOND
            await trio.sleep_until(start)
            # new_stream would dial a peer that isn't connected.
            if not self._host.get_network().get_connections(target):
                return None
            rtt = None
            async with load_aware(_TIMEOUT) as seen:
                with suppress(Exception):
                    rtt = await measure_rtt(self._host, target)
            if not seen.is_slow:
                break
            self._next = trio.current_time() + _PAUSE
        return rtt
