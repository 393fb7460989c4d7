"""Discovery that needs the router's host, which is known once the router has its Pubsub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from libp2p.abc import IHost
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubRouter
from episub_router.net.discovery.rendezvous import Discovery


class LateDiscovery:
    """What it is given as `source`, by the time that it is asked."""

    source: Discovery

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        return await self.source.find(topic)

    async def provide(self, topic: str) -> None:
        await self.source.provide(topic)

    async def withdraw(self, topic: str) -> None:
        await self.source.withdraw(topic)


class LateRouter(EpisubRouter):
    """A router with one discovery, that `make` makes of its host."""

    def __init__(self, make: Callable[[IHost], Discovery], **options: Any) -> None:
        self._late, self._make = LateDiscovery(), make
        super().__init__(discovery=[self._late], **options)

    def attach(self, pubsub: Pubsub) -> None:
        self._late.source = self._make(pubsub.host)
        super().attach(pubsub)
