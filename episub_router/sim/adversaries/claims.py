"""Members that lie about other peers, and about how far away they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from episub_router.protocol.messages import Message, Neighbor, Nodes, Root, Shuffle, ShuffleReply
from episub_router.sim.adversaries.member import Member
from episub_router.sim.adversaries.settings import PoisonAttack, RttLiarAttack

_INVENTED = 1_000_000_000
"""The first id of peers that don't exist, far above those that do."""
_SHUFFLE_PERIOD = 1.0
"""Seconds; the rate at which the core lets one peer shuffle."""
_NAMED = 16
"""Peers in a message; NODES can't have more."""


class Poison(Member):
    """`PoisonAttack`."""

    __slots__ = ()

    def strike(self) -> None:
        self.every(_SHUFFLE_PERIOD, self._shuffle)

    def disguised(self, message: Message) -> Message | None:
        if isinstance(message, Nodes | ShuffleReply | Shuffle | Neighbor) and message.peers:
            return replace(message, peers=self._names(len(message.peers)))
        return super().disguised(message)

    def _shuffle(self) -> None:
        for peer in self.neighbors():
            self.transmit(Shuffle(self.id, 6, peers=self._names(_NAMED)), (peer,))

    def _names(self, count: int) -> tuple[int, ...]:
        settings = self.ring.settings
        assert isinstance(settings, PoisonAttack)
        friends = self.ring.friends(self.id)
        invented = round(settings.invented * count)
        names: Iterable[int] = self.rng.sample(friends, min(len(friends), count - invented))
        made_up = [_INVENTED + self.rng.randrange(_INVENTED) for _ in range(invented)]
        return (*names, *made_up)


class RttLiar(Member):
    """`RttLiarAttack`."""

    __slots__ = ()

    def ping_time(self, rtt: float) -> float:
        settings = self.ring.settings
        assert isinstance(settings, RttLiarAttack)
        return rtt * settings.factor if self.striking else rtt

    def disguised(self, message: Message) -> Message | None:
        if isinstance(message, Root) and message.roots:
            nearer = tuple(root._replace(hops=1, cost=0.0) for root in message.roots)
            return replace(message, roots=nearer)
        return super().disguised(message)
