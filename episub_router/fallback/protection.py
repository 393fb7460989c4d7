"""Mesh peers are protected from the connection manager, as Episub's neighbours are."""

from __future__ import annotations

from collections.abc import Set

from libp2p.abc import INetworkService
from libp2p.peer.id import ID


class MeshProtection:
    """Keeps the host's connections to the mesh of each topic from being pruned."""

    def __init__(self, network: INetworkService) -> None:
        self._network = network
        self._protected: dict[str, dict[ID, None]] = {}

    def topics(self) -> list[str]:
        """Those in which peers are protected."""
        return list(self._protected)

    def keep(self, topic: str, mesh: Set[ID]) -> list[ID]:
        """Protect the peers in the mesh of `topic`, and release those that are no longer in it;
        the peers that are new."""
        had = self._protected.get(topic, {})
        new = [peer for peer in mesh if peer not in had]
        for peer in new:
            self._network.protect(peer, _tag(topic))
        for peer in [peer for peer in had if peer not in mesh]:
            self._network.unprotect(peer, _tag(topic))
        self._protected[topic] = dict.fromkeys(mesh)
        if not mesh:
            del self._protected[topic]
        return new


def _tag(topic: str) -> str:
    return f"gossipsub/{topic}"
