"""floodsub: every message goes to every peer (libp2p/specs, gossipsub v1.0, "In the beginning
was floodsub"). The upper end of what reliability costs."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.sim.routers.gossipsub import GossipsubNode


class FloodsubNode(GossipsubNode):
    """A `GossipsubNode` without a mesh, and so without a heartbeat."""

    __slots__ = ()

    def start(self, contacts: tuple[int, ...]) -> None:
        for peer in contacts:
            self._dial(peer)

    def goodbye(self) -> None:
        pass

    def timer(self) -> None:
        pass

    def neighbors(self) -> Iterable[int]:
        return self.links

    def _accept(self, message: int, hops: int, sender: int) -> None:
        self._hold(message, hops, sender)
        self._push([peer for peer in self.links if peer != sender], message, hops + 1)
