"""Hostile members of a gossipsub mesh, for those attacks that mean something there."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from episub_router.sim.adversaries.hostile import Hostile
from episub_router.sim.adversaries.ring import Ring
from episub_router.sim.adversaries.settings import DuplicatesAttack
from episub_router.sim.network.network import Network
from episub_router.sim.records import HOSTILE
from episub_router.sim.routers.gossipsub import GRAFT, IHAVE, PRUNE, PUBLISH, GossipsubNode
from episub_router.sim.routers.node import Node
from episub_router.sim.routers.params import GossipsubParams
from episub_router.sim.sizes import SIGNED_PAYLOAD, gossipsub_ids, gossipsub_link

_ASK_PERIOD = 1.0
"""Seconds between two rounds of asking for links."""
_ASKED_AT_ONCE = 32
"""Nodes asked in one round."""
_ASK_AGAIN = 61.0
"""Seconds until a node that refused is asked again: a GRAFT in the back-off is penalised."""


class GossipsubMember(Hostile, GossipsubNode):
    """`CensorAttack`: a member of `ring`. Its deliveries aren't recorded, and what it sends is
    counted apart."""

    __slots__ = ("ring",)

    def __init__(
        self,
        node: int,
        network: Network[Node],
        rng: random.Random,
        params: GossipsubParams,
        ring: Ring,
    ) -> None:
        super().__init__(node, network, rng, params)
        self.ring = ring
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


class GossipsubCovertFlash(GossipsubMember):
    """`CovertFlashAttack`."""

    __slots__ = ()

    def _accept(self, message: int, hops: int, sender: int) -> None:
        super()._accept(message, hops, sender)
        if not self.striking:
            others = [peer for peer in self.links if peer != sender and peer not in self.mesh]
            self.push(others, message, hops + 1)


class GossipsubIHaveLiar(GossipsubMember):
    """`IHaveLiarAttack`."""

    __slots__ = ()

    def on_learned(self, message: int) -> None:
        if self.striking:
            self._transmit([*self.links], IHAVE, (message,), gossipsub_ids(1))


class GossipsubDuplicates(GossipsubMember):
    """`DuplicatesAttack`."""

    __slots__ = ()

    def _accept(self, message: int, hops: int, sender: int) -> None:
        super()._accept(message, hops, sender)
        settings = self.ring.settings
        assert isinstance(settings, DuplicatesAttack)
        if self.striking:
            for _ in range(settings.copies):
                self.push([peer for peer in self.links if peer != sender], message, hops + 1)


class GossipsubGreedy(GossipsubMember):
    """`GreedyAttack`: dials all nodes and GRAFTs itself to them, and prunes nobody."""

    __slots__ = ("_asked_at",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._asked_at: dict[int, float] = {}
        """When each node was last asked. Bound: the nodes of the run."""

    def targets(self) -> Iterable[int]:
        """The nodes whose links it wants."""
        if self.ring.victims:
            return self.ring.victims
        if self.ring.settings.knows == "everybody":
            return self.ring.honest
        return [peer for peer in self.links if peer not in self.ring.up]

    def strike(self) -> None:
        self.every(_ASK_PERIOD, self._ask_all)

    def _ask_all(self) -> None:
        now = self.loop.now
        due = [
            peer
            for peer in self.targets()
            if peer not in self.mesh and now - self._asked_at.get(peer, -_ASK_AGAIN) >= _ASK_AGAIN
        ]
        for peer in self.rng.sample(due, min(len(due), _ASKED_AT_ONCE)):
            self._asked_at[peer] = now
            if peer in self.links:
                self._graft(peer)
            else:
                self.network.dial(self, peer)

    def connected(self, peer: int) -> None:
        super().connected(peer)
        if peer in self._asked_at and peer in self.outbound:
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
