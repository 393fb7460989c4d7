"""Members that take links, each for itself or all together."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from episub_router.protocol.messages import (
    MAX_NODES,
    BroadcastMessage,
    Disconnect,
    ForwardJoin,
    GetNodes,
    GetTopics,
    Join,
    LinkKind,
    Message,
    Neighbor,
    NeighborRole,
    Nodes,
    Shuffle,
    ShuffleReply,
    Topics,
)
from episub_router.protocol.params import EpisubParams
from episub_router.sim.adversaries.member import Member
from episub_router.sim.adversaries.ring import Ring
from episub_router.sim.network.network import Network
from episub_router.sim.routers.episub import TOPIC_NAME
from episub_router.sim.routers.node import Node

_ASK_PERIOD = 1.0
"""Seconds between two rounds of asking for links."""
_ASKED_AT_ONCE = 32
"""Nodes asked in one round."""
_ASK_AGAIN = 12.0
"""Seconds until a node that refused is asked again: the rate at which the core hears requests."""


class _Taker(Member):
    """Holds links that its core knows nothing of: as many as it gets, and none to others' gain."""

    __slots__ = ("_accepting", "taken")

    def __init__(
        self,
        node: int,
        network: Network[Node],
        rng: random.Random,
        params: EpisubParams,
        ring: Ring,
    ) -> None:
        super().__init__(node, network, rng, params, ring)
        self.taken: dict[int, None] = {}
        """Peers that have this node as their neighbour."""
        self._accepting: dict[int, None] = {}
        """Joining nodes that are being dialled, to be sent an ACCEPT."""

    def say(self, role: NeighborRole, peer: int, links: int = 1) -> None:
        """Send NEIGHBOR in the words of one that needs links: `links` of them, none random."""
        self.transmit(Neighbor(role, links, LinkKind.RANDOM), (peer,))

    def accept(self, joiner: int) -> None:
        """Send `joiner` an ACCEPT, over a new connection if there is none."""
        if joiner in self.links:
            self.taken[joiner] = None
            self.say(NeighborRole.ACCEPT, joiner)
        elif joiner != self.id and joiner not in self._accepting:
            self._accepting[joiner] = None
            self.network.dial(self, joiner)

    def accept_together(self, joiner: int) -> None:
        """Have all members of the ring accept `joiner`."""
        friends = list(self.ring.up.values()) if self.ring.conspires else [self]
        for friend in friends:
            assert isinstance(friend, _Taker)
            friend.accept(joiner)

    def lure(self, peer: int, message: Message) -> bool:
        """Answer what asks for peers with members of the ring; False for other messages."""
        if isinstance(message, Join) and message.peer not in self.ring.up:
            self.accept_together(message.peer)  # type: ignore[arg-type]
        elif isinstance(message, GetNodes):
            self.transmit(Nodes(self._names(), 0), (peer,))
        elif isinstance(message, Shuffle) and message.peer in self.links:
            self.transmit(ShuffleReply(self._names()), (message.peer,))  # type: ignore[arg-type]
        else:
            return isinstance(message, Join | ForwardJoin | Shuffle)
        return True

    def hold(self, peer: int, message: Message) -> bool:
        """Answer `peer`, which has us as its neighbour; False for what the core may see."""
        if isinstance(message, Disconnect):
            self.taken.pop(peer, None)
        elif isinstance(message, Neighbor):
            if message.role is NeighborRole.ACCEPT:
                self.taken[peer] = None
            elif message.role is NeighborRole.REQUEST:
                self.taken[peer] = None
                self.say(NeighborRole.ACCEPT, peer)
            elif message.role is NeighborRole.QUERY:
                self.say(NeighborRole.LIST, peer)
        else:
            return isinstance(message, BroadcastMessage)
        return True

    def _names(self) -> tuple[int, ...]:
        friends = self.ring.friends(self.id)
        return tuple(self.rng.sample(friends, min(len(friends), MAX_NODES)))

    def connected(self, peer: int) -> None:
        super().connected(peer)
        if peer in self._accepting:
            del self._accepting[peer]
            self.accept(peer)

    def dial_failed(self, peer: int) -> None:
        super().dial_failed(peer)
        self._accepting.pop(peer, None)

    def disconnected(self, peer: int) -> None:
        super().disconnected(peer)
        self.taken.pop(peer, None)


class JoinCapture(_Taker):
    """`JoinCaptureAttack`."""

    __slots__ = ()

    def takes(self, peer: int, message: Message) -> bool:
        if self.lure(peer, message):
            return True
        return peer in self.taken and self.hold(peer, message)


class Greedy(_Taker):
    """`GreedyAttack`. Once it strikes, its core plays no part any more."""

    __slots__ = ("_asked_at",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._asked_at: dict[int, float] = {}
        """When each node was last asked. Bound: the nodes of the run."""

    def strike(self) -> None:
        self.taken.update(dict.fromkeys(self.neighbors()))
        self.every(_ASK_PERIOD, self._ask_all)

    def takes(self, peer: int, message: Message) -> bool:
        if isinstance(message, GetTopics):
            self.transmit(Topics((TOPIC_NAME,)), (peer,))
        elif not self.lure(peer, message):
            self.hold(peer, message)
        return True

    def disguised(self, message: Message) -> Message | None:
        return None

    def targets(self) -> Iterable[int]:
        """The nodes whose links it wants."""
        if self.ring.victims:
            return self.ring.victims
        if self.ring.settings.knows == "everybody":
            return self.ring.honest
        known = dict.fromkeys([*self.topic.membership.passive, *self.links])
        return [peer for peer in known if peer not in self.ring.up]

    def _ask_all(self) -> None:
        now = self.loop.now
        due = [
            peer
            for peer in self.targets()
            if peer not in self.taken and now - self._asked_at.get(peer, -_ASK_AGAIN) >= _ASK_AGAIN
        ]
        for peer in self.rng.sample(due, min(len(due), _ASKED_AT_ONCE)):
            self._asked_at[peer] = now
            if peer in self.links:
                self._ask(peer)
            else:
                self.network.dial(self, peer)

    def _ask(self, peer: int) -> None:
        self.transmit(Join(self.id, 0), (peer,))
        self.say(NeighborRole.REQUEST, peer)

    def connected(self, peer: int) -> None:
        super().connected(peer)
        if peer in self._asked_at and peer in self.outbound:
            self._ask(peer)
