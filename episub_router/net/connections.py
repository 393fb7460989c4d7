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
    """Closes released connections after a grace period."""

    def __init__(
        self,
        host: IHost,
        own_protocols: Iterable[TProtocol],
        params: RouterParams,
        counters: Counters,
        in_use: Callable[[bytes], bool],
    ) -> None:
        self._host = host
        self._ignored = _HOUSEKEEPING | frozenset(own_protocols)
        self._params = params
        self._counters = counters
        self._in_use = in_use
        self._owned: dict[bytes, None] = {}
        self._due: dict[bytes, float] = {}
        """When each released peer is to be looked at, in this order."""
        self._wake = trio.Event()

    def owns(self, peer: bytes) -> bool:
        """Whether the router opened the connection to `peer`."""
        return peer in self._owned

    def opened(self, peer: bytes) -> None:
        """The router has dialled `peer`."""
        self._owned[peer] = None

    def closed(self, peer: bytes) -> None:
        """`peer` has no connection any more."""
        self._owned.pop(peer, None)
        self._due.pop(peer, None)

    def release(self, peer: bytes) -> None:
        """Nobody needs `peer` at the moment: close it unless `keep` comes first."""
        if peer in self._owned and peer not in self._due:
            self._due[peer] = trio.current_time() + self._params.release_grace
            self._wake.set()

    def keep(self, peer: bytes) -> None:
        """`peer` is needed after all."""
        self._due.pop(peer, None)

    async def run(self) -> None:
        """Close what is due, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._wake = trio.Event()
                due = next(iter(self._due.items()), None)
                if due is None:
                    await self._wake.wait()
                    continue
                peer, when = due
                await trio.sleep_until(when)
                if self._due.get(peer) != when:
                    continue
                del self._due[peer]
                if self._in_use(peer):
                    continue
                if self._used_by_others(peer):
                    self.release(peer)
                else:
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
        self._owned.pop(peer, None)
        try:
            with trio.move_on_after(_CLOSE_TIMEOUT):
                await self._host.disconnect(ID(peer))
        except Exception:
            # The connection went down by itself meanwhile, which is what was wanted.
            return
        self._counters.add(Reason.CONNECTIONS_CLOSED)
