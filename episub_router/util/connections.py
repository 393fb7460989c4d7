"""Which peers are connected."""

from __future__ import annotations

from libp2p.abc import IHost
from libp2p.peer.id import ID


def is_connected(host: IHost, peer: ID) -> bool:
    """Whether a connection to `peer` is open."""
    return any(not each.is_closed for each in host.get_network().get_connections(peer))
