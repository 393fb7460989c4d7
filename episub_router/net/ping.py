"""Round trips over /ipfs/ping/1.0.0, for E10 and E18.

py-libp2p's own ping service rounds to whole milliseconds, which on a LAN makes all peers
equally near.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

import trio
from libp2p.abc import IHost
from libp2p.custom_types import TProtocol
from libp2p.io.utils import read_exactly
from libp2p.peer.id import ID

from episub_router.net.counters import Counters, Reason
from episub_router.net.patience import patient
from episub_router.net.peer import RemotePeer

PING_PROTOCOL = TProtocol("/ipfs/ping/1.0.0")
_PING_LENGTH = 32

PINGS_PER_SECOND = 4.0
"""Over all topics; ours: a ping costs 5 ms of CPU, so 2 % of a core."""

_TIMEOUT = 2.0
"""Seconds; ours: above any RTT that is worth knowing."""

_CONCURRENCY = 4
"""Streams; ours: RTTs measured side by side disturb each other."""

_MAX_REQUESTS = 64
"""Peers measured or waiting for it; requests beyond fail at once; ours."""

_PAUSE = 10.0
"""Seconds of rest after a ping that found the event loop behind. Measured: while 50 hosts in one
process join, every ping times out and takes CPU from the dials."""

_TRIES = 3
"""Pings for one measurement while they find the event loop behind. Ours: such a ping measures how
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
    """Measures on request, within a budget, and reports each peer's RTT once per request.

    Requests beyond the budget wait; the core has few of them under way at a time.
    Requests for a peer that is already being measured share its measurement.
    """

    def __init__(
        self,
        host: IHost,
        counters: Counters,
        report_rtt: Callable[[RemotePeer, float | None], None],
    ) -> None:
        self._host = host
        self._counters = counters
        self._report_rtt = report_rtt
        self._limiter = trio.CapacityLimiter(_CONCURRENCY)
        self._next = -float("inf")
        """When the budget next allows a ping."""
        self._measuring: dict[RemotePeer, None] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Host the measurements until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for peer in self._measuring:
                nursery.start_soon(self._measure, peer)
            await trio.sleep_forever()

    def request(self, peer: RemotePeer) -> None:
        """Measure `peer`; the report comes later, never from within this call."""
        if peer in self._measuring:
            return
        self._measuring[peer] = None
        if self._nursery is not None:
            self._nursery.start_soon(self._measure, peer)

    async def _measure(self, peer: RemotePeer) -> None:
        rtt = None
        try:
            if len(self._measuring) <= _MAX_REQUESTS:
                async with self._limiter:
                    for _ in range(_TRIES):
                        await self._turn()
                        rtt, is_behind = await self._ping(peer.id)
                        if not is_behind:
                            break
        except Exception:
            rtt = None
        finally:
            del self._measuring[peer]
        if rtt is None:
            self._counters.add(Reason.PINGS_FAILED)
        self._report_rtt(peer, rtt)

    async def _ping(self, target: ID) -> tuple[float | None, bool]:
        """The round trip, if there was one, and whether the event loop was behind meanwhile."""
        # new_stream would dial a peer that isn't connected.
        if not self._host.get_network().get_connections(target):
            return None, False
        rtt = None
        async with patient(_TIMEOUT) as seen:
            with suppress(Exception):
                rtt = await measure_rtt(self._host, target)
        if seen.is_slow:
            self._next = trio.current_time() + _PAUSE
        return rtt, seen.is_slow

    async def _turn(self) -> None:
        start = max(self._next, trio.current_time())
        self._next = start + 1 / PINGS_PER_SECOND
        await trio.sleep_until(start)
