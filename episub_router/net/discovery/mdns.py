"""Nodes of the local network, as py-libp2p's mDNS finds them (E02)."""

from __future__ import annotations

from collections.abc import Sequence

from libp2p.discovery.events.peerDiscovery import peerDiscovery
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo

from episub_router.net.discovery.rendezvous import Discovery
from episub_router.util.bounded import put_last

_MOST = 64
"""Peers that are kept, the latest ones; chosen: as many as a discovery's answer is looked at."""


class MdnsDiscovery(Discovery):
    """Offers whatever peers answer on the local network, for every topic.

    The host has to be made with `new_host(enable_mDNS=True)`, which announces it, whatever its
    topics. py-libp2p has one list of handlers for a whole process; `close` takes this one from it.
    """

    def __init__(self) -> None:
        self._found: dict[ID, PeerInfo] = {}
        peerDiscovery.register_peer_discovered_handler(self._add)

    def close(self) -> None:
        """Notice no more peers."""
        peerDiscovery.unregister_peer_discovered_handler(self._add)

    def _add(self, info: PeerInfo) -> None:
        # In a thread of zeroconf.
        put_last(self._found, info.peer_id, info, _MOST)

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        """Those that were found so far; nothing says which topics they are in."""
        return list(self._found.values())
