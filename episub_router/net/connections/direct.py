"""Direct peers: connections that stay, to peers that the operator names (gossipsub v1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.peer.peerstore import PERMANENT_ADDR_TTL

from episub_router.util.checks import check_type

_FIRST_AFTER = 0.1
"""Seconds; py-libp2p: direct_connect_initial_delay."""

_DIAL_TIMEOUT = 10.0
"""Seconds; chosen: twice `RouterParams.dial_timeout`."""

_TAG = "direct-peer"


class DirectPeers:
    """Keeps connections to some peers, whichever protocol they speak."""

    def __init__(self, peers: Iterable[PeerInfo], interval: float) -> None:
        """Looks every `interval` seconds for those that are gone."""
        self.peers: dict[ID, PeerInfo] = {}
        for info in peers:
            check_type("a direct peer", info, PeerInfo)
            self.peers[info.peer_id] = info
        self._interval = interval
        self._host: IHost | None = None

    def attach(self, host: IHost) -> None:
        """Remember their addresses, and protect them in the connection manager."""
        self._host = host
        network = host.get_network()
        for peer, info in self.peers.items():
            host.get_peerstore().add_addrs(peer, info.addrs, PERMANENT_ADDR_TTL)
            network.protect(peer, _TAG)

    async def run(self) -> None:
        """Connect to those that aren't connected, until cancelled."""
        host = self._host
        if host is None or not self.peers:
            return
        await trio.sleep(_FIRST_AFTER)
        while True:
            async with trio.open_nursery() as nursery:
                for peer, info in self.peers.items():
                    if not host.get_network().get_connections(peer):
                        nursery.start_soon(self._connect, host, info)
            await trio.sleep(self._interval)

    async def _connect(self, host: IHost, info: PeerInfo) -> None:
        # Whatever goes wrong, there is another time.
        with suppress(Exception), trio.move_on_after(_DIAL_TIMEOUT):
            try:
                await host.connect(info)
            finally:
                # A dial limits the life of a peer's addresses.
                host.get_peerstore().add_addrs(info.peer_id, info.addrs, PERMANENT_ADDR_TTL)
