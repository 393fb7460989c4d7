"""Rendezvous through a point of the libp2p rendezvous protocol (E02)."""

from __future__ import annotations

from collections.abc import Sequence

from libp2p.discovery.rendezvous.client import RendezvousClient
from libp2p.peer.peerinfo import PeerInfo

_REGISTERED = 7200
"""Seconds; the specification's shortest: the router registers again every hour."""

_FOUND = 100
"""Registrations in one answer; chosen: many times what a joining node dials."""


def namespace(topic: str) -> str:
    """Under which nodes of `topic` register."""
    return f"episub:{topic}"


class RendezvousPointDiscovery:
    """Registers this node under each topic at a rendezvous point, and finds others there.

    `client` is a `RendezvousClient` of the router's host, connected to the point, or one that
    knows its addresses.
    """

    def __init__(self, client: RendezvousClient) -> None:
        self._client = client

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        """Ask the point; it answers with the first hundred."""
        found, _ = await self._client.discover(namespace(topic), _FOUND)
        return found

    async def provide(self, topic: str) -> None:
        """Register for two hours; raises what the client raises if the point refuses."""
        await self._client.register(namespace(topic), _REGISTERED)

    async def withdraw(self, topic: str) -> None:
        await self._client.unregister(namespace(topic))
