"""Which connections are ours to close, and when.

The router closes what it opened itself, once no topic has the peer as a neighbour and nobody
else uses the connection. Whatever the application or the remote side opened stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio
from libp2p.abc import IHost
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID

from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams
from episub_router.net.ping import PING_PROTOCOL

_CLOSE_TIMEOUT = 5.0
"""Seconds; py-libp2p's close takes 0.2."""

_HOUSEKEEPING = frozenset(
    {PING_PROTOCOL, TProtocol("/ipfs/id/1.0.0"), TProtocol("/ipfs/id/push/1.0.0")}
)
"""Streams that every connection has now and then, and that nobody would miss."""


class Connections:
    """Closes connections that were released, or that nobody has used for a while."""

    def __init__(
        self,
        host: IHost,
        own_protocols: Iterable[TProtocol],
        params: RouterParams,
        counters: Counters,
        needed: Callable[[bytes], bool],
    ) -> None:
        """`needed` tells whether a peer is a neighbour or has something under way."""
        self._host = host
        self._ignored = _HOUSEKEEPING | frozenset(own_protocols)
        self._params = params
        self._counters = counters
        self._needed = needed
        self._due: dict[bytes, float] = {}
        """Peers that the router dialled, and when each is to be looked at."""
        self._wake = trio.Event()

    def owns(self, peer: bytes) -> bool:
        """Whether the router opened the connection to `peer`."""
        return peer in self._due

    def opened(self, peer: bytes) -> None:
        """The router has dialled `peer`."""
        self._look_at(peer, self._params.idle_timeout)

    def closed(self, peer: bytes) -> None:
        """`peer` has no connection any more."""
        self._due.pop(peer, None)

    def used(self, peer: bytes) -> None:
        """`peer` is of use at the moment, released or not."""
        if peer in self._due:
            self._due[peer] = trio.current_time() + self._params.idle_timeout

    def release(self, peer: bytes) -> None:
        """Nobody needs `peer` at the moment: close it soon, unless it is used again first."""
        if peer in self._due:
            self._look_at(peer, self._params.release_grace)

    def _look_at(self, peer: bytes, delay: float) -> None:
        self._due[peer] = trio.current_time() + delay
        self._wake.set()

    async def run(self) -> None:
        """Close what is due, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._wake = trio.Event()
                with trio.move_on_at(min(self._due.values(), default=float("inf"))):
                    await self._wake.wait()
                now = trio.current_time()
                for peer in [peer for peer, due in self._due.items() if due <= now]:
                    if self._needed(peer) or self._used_by_others(peer):
                        self.used(peer)
                    else:
                        del self._due[peer]
                        nursery.start_soon(self._close, peer)

    def _used_by_others(self, peer: bytes) -> bool:
        network = self._host.get_network()
        target = ID(peer)
        if network.is_protected(target):
            return True
        return any(
            # A stream without a protocol is being negotiated: somebody is about to use it.
            stream.get_protocol() not in self._ignored
            for connection in network.get_connections(target)
            for stream in connection.get_streams()
        )

    async def _close(self, peer: bytes) -> None:
        try:
            with trio.move_on_after(_CLOSE_TIMEOUT):
                await self._host.disconnect(ID(peer))
        except Exception:
            # The connection went down by itself meanwhile, which is what was wanted.
            return
        self._counters.add(Reason.CONNECTIONS_CLOSED)
