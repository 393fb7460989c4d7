"""Hostile members of a gossipsub mesh, for those attacks that mean something there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from episub_router.sim.adversaries.hostile import Asking, Hostile
from episub_router.sim.records import HOSTILE
from episub_router.sim.routers.gossipsub import GRAFT, IHAVE, PRUNE, PUBLISH, GossipsubNode
from episub_router.sim.sizes import SIGNED_PAYLOAD, gossipsub_ids, gossipsub_link


class GossipsubMember(Hostile, GossipsubNode):
    """`CensorAttack`: a member of `ring`. Its deliveries aren't recorded, and what it sends is
    counted apart."""

    __slots__ = ("ring",)

    def __init__(self, *arguments: Any) -> None:
        *own, self.ring = arguments
        super().__init__(*own)
        self.enter_ring()

    def receive(self, parcel: tuple[int, str, Any]) -> None:
        sender, kind, body = parcel
        super().receive(parcel)
        if self.striking and sender in self.links and kind in (PUBLISH, IHAVE):
            for message in body[:1] if kind == PUBLISH else body:
                self.ring.learn(message, self)

    def _accept(self, message: int, hops: int, sender: int) -> None:
        # As an honest node, without a record of the delivery.
        self._held[message] = hops
        self._window.append(message)
        self._push([peer for peer in self.mesh if peer != sender], message, hops + 1)
        for _ in range(self.copies(message)):
            self.push([peer for peer in self.links if peer != sender], message, hops + 1)

    def _push(self, peers: list[int], message: int, hops: int) -> None:
        if not (self.striking and self.withholds(message)):
            self.push(peers, message, hops)

    def push(self, peers: Iterable[int], message: int, hops: int) -> None:
        """Send `message` to `peers`."""
        size = SIGNED_PAYLOAD + self.records.messages[message].size
        to = [*peers]
        self.late(lambda body: self._transmit(to, PUBLISH, body, size), (message, hops))

    def _send(self, peer: int, kind: str, body: Any, size: int) -> None:
        if kind == IHAVE and self.striking:
            body = tuple(message for message in body if not self.withholds(message))
            if not body:
                return
        self._transmit([peer], kind, body, size)

    def _transmit(self, peers: list[int], kind: str, body: Any, size: int) -> None:
        self.records.sent(HOSTILE, len(peers), size)
        if kind == PUBLISH:
            message, hops = body
            self.trace_send(peers, size, message=message, hops=hops, payload=size)
        else:
            named = body if kind == IHAVE else None
            self.trace_send(peers, size, payload=0, control=kind.upper(), messages=named)
        self.network.send(self, peers, (self.id, kind, body), size)


class GossipsubIHaveLiar(GossipsubMember):
    """`IHaveLiarAttack`."""

    __slots__ = ()

    def on_learned(self, message: int) -> None:
        if self.striking:
            self._transmit([*self.links], IHAVE, (message,), gossipsub_ids(1))


class GossipsubGreedy(Asking, GossipsubMember):
    """`GreedyAttack`: dials all nodes and GRAFTs itself to them, and prunes nobody."""

    __slots__ = ("asked_at",)

    again = 61.0  # A GRAFT in the back-off is penalised.

    def held(self) -> Collection[int]:
        return self.mesh

    def ask(self, peer: int) -> None:
        self._graft(peer)

    def _graft(self, peer: int) -> None:
        self.mesh[peer] = None
        self._transmit([peer], GRAFT, None, gossipsub_link())

    def _prune(self, peer: int) -> None:
        if self.striking:
            self.mesh.setdefault(peer)
        else:
            super()._prune(peer)

    def receive(self, parcel: tuple[int, str, Any]) -> None:
        sender, kind, _ = parcel
        if self.striking and kind == PRUNE:
            self.mesh.pop(sender, None)
        elif self.striking and kind == GRAFT:
            self.mesh[sender] = None
        else:
            super().receive(parcel)

    def timer(self) -> None:
        if not self.striking:
            super().timer()
