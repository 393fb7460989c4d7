"""Members that take links, each for itself or all together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
from episub_router.sim.adversaries.hostile import Asking
from episub_router.sim.adversaries.member import Member
from episub_router.sim.routers.episub import TOPIC_NAME


class _Taker(Member):
    """Holds links that its core knows nothing of: as many as it gets, and none to others' gain."""

    __slots__ = ("_accepting", "taken")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
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


class Greedy(Asking, _Taker):
    """`GreedyAttack`. Once it strikes, its core plays no part any more."""

    __slots__ = ("asked_at",)

    again = 12.0  # The rate at which the core hears requests

    def strike(self) -> None:
        self.taken.update(dict.fromkeys(self.neighbors()))
        super().strike()

    def takes(self, peer: int, message: Message) -> bool:
        if isinstance(message, GetTopics):
            self.transmit(Topics((TOPIC_NAME,)), (peer,))
        elif not self.lure(peer, message):
            self.hold(peer, message)
        return True

    def disguised(self, message: Message) -> Message | None:
        return None

    def held(self) -> Collection[int]:
        return self.taken

    def known(self) -> Iterable[int]:
        return [*self.topic.membership.passive, *self.links]

    def ask(self, peer: int) -> None:
        self.transmit(Join(self.id, 0), (peer,))
        self.say(NeighborRole.REQUEST, peer)
