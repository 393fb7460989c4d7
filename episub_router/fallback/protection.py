"""Mesh peers are protected from the connection manager, as Episub's neighbours are."""

from __future__ import annotations

from collections.abc import Mapping

from libp2p.abc import INetworkService
from libp2p.peer.id import ID


class MeshProtection:
    """Keeps the host's connections to the mesh of each topic from being pruned."""

    def __init__(self, network: INetworkService) -> None:
        self._network = network
        self._protected: dict[tuple[str, ID], None] = {}

    def protect(self, topic: str, peer: ID) -> None:
        """`peer` came into the mesh of `topic`."""
        if (topic, peer) not in self._protected:
            self._protected[topic, peer] = None
            self._network.protect(peer, _tag(topic))

    def keep(self, mesh: Mapping[str, set[ID]]) -> None:
        """Release those that are no longer in `mesh`."""
        gone = [link for link in self._protected if link[1] not in mesh.get(link[0], ())]
        for topic, peer in gone:
            del self._protected[topic, peer]
            self._network.unprotect(peer, _tag(topic))


def _tag(topic: str) -> str:
    return f"gossipsub/{topic}"
