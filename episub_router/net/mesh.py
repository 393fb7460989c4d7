"""The Episub neighbours of each joined topic, in the form that py-libp2p's tools expect."""

from __future__ import annotations

import trio
from libp2p.abc import INetworkService
from libp2p.peer.id import ID

from episub_router.net.events import Alone, Joined, NeighborDown, NeighborUp, TopicEvents
from episub_router.net.peers import RemotePeer
from episub_router.protocol.effects import DownReason


class Mesh:
    """Notes links, reports them as events, and protects them from the connection manager."""

    def __init__(self, network: INetworkService, events: TopicEvents) -> None:
        self._network = network
        self._events = events
        self.neighbors: dict[str, set[ID]] = {}
        """The active view of each joined topic."""
        self._changed = trio.Event()

    def join(self, topic: str) -> None:
        self.neighbors.setdefault(topic, set())

    def leave(self, topic: str) -> None:
        self.neighbors.pop(topic, None)

    def up(self, topic: str, peer: RemotePeer) -> None:
        """`peer` became a neighbour."""
        neighbors = self.neighbors.setdefault(topic, set())
        neighbors.add(peer.id)
        peer.topics[topic] = None
        self._network.protect(peer.id, f"episub/{topic}")
        self.notify()
        self._events.emit(NeighborUp(topic, peer.id, len(neighbors)))
        if len(neighbors) == 1:
            self._events.emit(Joined(topic))

    def down(self, topic: str, peer: RemotePeer, reason: DownReason) -> None:
        """`peer` is a neighbour no longer."""
        neighbors = self.neighbors.get(topic, set())
        neighbors.discard(peer.id)
        peer.forget_topic(topic)
        self._network.unprotect(peer.id, f"episub/{topic}")
        self.notify()
        self._events.emit(NeighborDown(topic, peer.id, len(neighbors), reason))
        if not neighbors:
            self._events.emit(Alone(topic))

    def notify(self) -> None:
        """A neighbour came or went, of Episub's or of gossipsub's."""
        self._changed.set()
        self._changed = trio.Event()

    async def changed(self) -> None:
        """Return at the next `notify`."""
        await self._changed.wait()
