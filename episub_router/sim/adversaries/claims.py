"""Members that lie about other peers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from episub_router.protocol.messages import (
    MAX_NODES,
    Message,
    Neighbor,
    Nodes,
    Shuffle,
    ShuffleReply,
)
from episub_router.sim.adversaries.member import INVENTED, Member
from episub_router.sim.adversaries.settings import PoisonAttack

_SHUFFLE_PERIOD = 1.0
"""Seconds; the rate at which the core lets one peer shuffle."""


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
            self.transmit(Shuffle(self.id, 6, peers=self._names(MAX_NODES)), (peer,))

    def _names(self, count: int) -> tuple[int, ...]:
        settings = self.ring.settings
        assert isinstance(settings, PoisonAttack)
        friends = self.ring.friends(self.id)
        invented = round(settings.invented * count)
        names: Iterable[int] = self.rng.sample(friends, min(len(friends), count - invented))
        made_up = [INVENTED + self.rng.randrange(INVENTED) for _ in range(invented)]
        return (*names, *made_up)
