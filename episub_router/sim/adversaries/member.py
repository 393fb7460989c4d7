"""A hostile node of an Episub overlay: the honest node, between an attack and the network."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from episub_router.protocol.events import Received
from episub_router.protocol.messages import Gossip, IHave, Message, Root
from episub_router.protocol.params import EpisubParams
from episub_router.sim.adversaries.hostile import Hostile
from episub_router.sim.adversaries.ring import Ring
from episub_router.sim.network.network import Network
from episub_router.sim.records import HOSTILE
from episub_router.sim.routers.episub import EpisubNode, columns
from episub_router.sim.routers.node import Node
from episub_router.sim.sizes import SIGNED_PAYLOAD, episub_control


class Member(Hostile, EpisubNode):
    """A member of `ring`. Kinds override what they do otherwise than an honest node.

    Its deliveries and drops aren't recorded, and what it sends is counted apart.
    """

    __slots__ = ("ring", "rounds_ahead")

    def __init__(
        self,
        node: int,
        network: Network[Node],
        rng: random.Random,
        params: EpisubParams,
        ring: Ring,
    ) -> None:
        super().__init__(node, network, rng, params)
        self.ring = ring
        self.enter_ring()
        self.rounds_ahead = 0
        """How far ahead of the true ones the rounds are that it forges."""

    # What kinds override.

    def takes(self, peer: int, message: Message) -> bool:
        """Whether `message` from `peer` was dealt with, so that the core doesn't see it; asked
        while striking."""
        del peer, message
        return False

    def disguised(self, message: Message) -> Message | None:
        """What is sent in place of the core's `message`, if anything; asked while striking."""
        if self.ring.settings.withholds and isinstance(message, Gossip | IHave):
            return None
        return message

    # What kinds use.

    def transmit(self, message: Message, peers: Iterable[int]) -> None:
        """Send `message` to those of `peers` that are connected."""
        connected = [peer for peer in peers if peer in self.links]
        size = episub_control(message)
        if isinstance(message, Gossip):
            size += SIGNED_PAYLOAD + message.size
        self.records.sent(HOSTILE, len(connected), size)
        if self.records.trace is not None:
            self.trace_send(connected, size, **columns(message))
        self.network.send(self, connected, Received(self.id, message), size)

    # Between the core and the network.

    def receive(self, parcel: Received) -> None:
        peer: Any = parcel.peer
        message = parcel.message
        if peer not in self.links:
            return
        if not (self.striking and self.takes(peer, message)):
            super().receive(parcel)
        if not self.striking:
            return
        if isinstance(message, Gossip):
            self.ring.learn(message.id, self)  # type: ignore[arg-type]
        elif isinstance(message, IHave):
            for entry in message.summary:
                self.ring.learn(entry.id, self)  # type: ignore[arg-type]
        elif isinstance(message, Root):
            for root in message.roots:
                self.ring.learn_root(root, self.rounds_ahead, self)

    def _send(self, message: Any, peers: list[int]) -> None:
        shown = self.disguised(message) if self.striking else message
        if shown is not None:
            self.transmit(shown, peers)

    def _on_deliver(self, effect: Any) -> None:
        pass

    def _on_dropped(self, effect: Any) -> None:
        pass
