"""Members that lie: that they have, or are near, what they don't pass on, and about other peers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from episub_router.protocol.messages import (
    MAX_NODES,
    Graft,
    IHave,
    Message,
    MessageSummary,
    Neighbor,
    Nodes,
    Prune,
    Root,
    Shuffle,
    ShuffleReply,
    TreeRoot,
)
from episub_router.protocol.plumtree.round_proofs import own_proof
from episub_router.sim.adversaries.member import INVENTED, Member
from episub_router.sim.adversaries.settings import PoisonAttack, RootLiarAttack

_SHUFFLE_PERIOD = 1.0
"""Seconds; the rate at which the core lets one peer shuffle."""


class IHaveLiar(Member):
    """`IHaveLiarAttack`."""

    __slots__ = ()

    def on_learned(self, message: int) -> None:
        if self.striking:
            self.transmit(IHave((MessageSummary(message, 1),)), self.neighbors())

    def disguised(self, message: Message) -> Message | None:
        return None if isinstance(message, IHave) else super().disguised(message)


class Hijack(IHaveLiar):
    """`HijackAttack`."""

    __slots__ = ()

    def strike(self) -> None:
        self.transmit(Prune(), self.neighbors())

    def takes(self, peer: int, message: Message) -> bool:
        if not isinstance(message, Graft):
            return False
        if not (message.sources or message.standby):
            # Lazy on the other side again, so that the next announcement counts as this one did.
            self.transmit(Prune(), (peer,))
        return True


class RootLiar(Member):
    """`RootLiarAttack`."""

    __slots__ = ()

    def strike(self) -> None:
        settings = self.ring.settings
        assert isinstance(settings, RootLiarAttack)
        self.rounds_ahead = settings.rounds

    def on_root_learned(self, root: TreeRoot) -> None:
        if self.striking:
            round = root.round + self.rounds_ahead
            proof = own_proof(b"made up", root.source, round) if self.rounds_ahead else root.proof
            forged = self.claim(root)._replace(round=round, proof=proof)
            self.transmit(Root((forged,)), self.neighbors())

    def disguised(self, message: Message) -> Message | None:
        if isinstance(message, Root) and message.roots:
            return None
        return super().disguised(message)


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
