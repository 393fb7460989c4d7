"""Members that claim to have, or to be near, what they don't pass on."""

from __future__ import annotations

from episub_router.protocol.messages import (
    Graft,
    IHave,
    Message,
    MessageSummary,
    Prune,
    Root,
    TreeRoot,
)
from episub_router.protocol.plumtree.round_proofs import own_proof
from episub_router.sim.adversaries.member import Member
from episub_router.sim.adversaries.settings import RootLiarAttack


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
