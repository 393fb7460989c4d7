"""Direct peers: connections that stay, to peers that the operator names (gossipsub v1.1)."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import trio
from libp2p.abc import IHost
from libp2p.peer.peerinfo import PeerInfo
from libp2p.peer.peerstore import PERMANENT_ADDR_TTL

_FIRST_AFTER = 0.1
"""Seconds; py-libp2p: direct_connect_initial_delay."""

_DIAL_TIMEOUT = 10.0
"""Seconds; chosen: twice `RouterParams.dial_timeout`."""


async def stay_connected(host: IHost, peers: Collection[PeerInfo], interval: float) -> None:
    """Keep connections to `peers`, whichever protocol they speak, until cancelled: look every
    `interval` seconds for those that are gone."""
    network = host.get_network()
    for info in peers:
        host.get_peerstore().add_addrs(info.peer_id, info.addrs, PERMANENT_ADDR_TTL)
        network.protect(info.peer_id, "direct-peer")
    await trio.sleep(_FIRST_AFTER)
    while peers:
        async with trio.open_nursery() as nursery:
            for info in peers:
                if not network.get_connections(info.peer_id):
                    nursery.start_soon(_connect, host, info)
        await trio.sleep(interval)


async def _connect(host: IHost, info: PeerInfo) -> None:
    # Whatever goes wrong, there is another time.
    with suppress(Exception), trio.move_on_after(_DIAL_TIMEOUT):
        try:
            await host.connect(info)
        finally:
            # A dial limits the life of a peer's addresses.
            host.get_peerstore().add_addrs(info.peer_id, info.addrs, PERMANENT_ADDR_TTL)
