"""floodsub: every message goes to every peer (libp2p/specs, gossipsub v1.0, "In the beginning
was floodsub"). The upper end of what reliability costs."""

from __future__ import annotations

import random
from collections.abc import Iterable

from episub_router.sim.network.network import Network
from episub_router.sim.routers.node import Node
from episub_router.sim.routers.params import FloodsubParams
from episub_router.sim.sizes import SIGNED_PAYLOAD


class FloodsubNode(Node):
    """A parcel is (sender, message, hops)."""

    __slots__ = ("_seen",)

    def __init__(
        self, node: int, network: Network[Node], rng: random.Random, params: FloodsubParams
    ) -> None:
        super().__init__(node, network, rng)
        self._seen: dict[int, None] = {}

    def start(self, contacts: tuple[int, ...]) -> None:
        for peer in contacts:
            self.records.sent("connect", 1, 0)
            self.network.dial(self, peer)

    def connected(self, peer: int) -> None:
        self.gained_neighbor()

    def disconnected(self, peer: int) -> None:
        if not self.links:
            self.lost_all_neighbors()

    def goodbye(self) -> None:
        pass

    def timer(self) -> None:
        pass

    def neighbors(self) -> Iterable[int]:
        return self.links

    def messages_in(self, parcel: tuple[int, int, int]) -> Iterable[int]:
        return (parcel[1],)

    def receive(self, parcel: tuple[int, int, int]) -> None:
        sender, message, hops = parcel
        if sender in self.links and message not in self._seen:
            self._accept(message, hops, sender)

    def inject(self, message: int, size: int) -> None:
        if message not in self._seen:
            self._accept(message, 0, -1)

    def _accept(self, message: int, hops: int, sender: int) -> None:
        self._seen[message] = None
        self.records.deliver(self.loop.now, message, self.id, hops, sender)
        record = self.records.messages[message]
        peers = [peer for peer in self.links if peer != sender]
        record.payloads += len(peers)
        self.records.sent("publish", len(peers), 0)
        self.records.sent("payload", len(peers), SIGNED_PAYLOAD + record.size)
        parcel = (self.id, message, hops + 1)
        size = SIGNED_PAYLOAD + record.size
        self.trace_send(peers, size, message=message, hops=hops + 1, payload=size)
        self.network.send(self, peers, parcel, size)
