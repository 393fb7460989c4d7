"""Members that push each message to all their neighbours, whatever these want."""

from __future__ import annotations

from dataclasses import replace

from episub_router.protocol.events import Received
from episub_router.protocol.messages import Gossip
from episub_router.sim.adversaries.member import Member
from episub_router.sim.adversaries.settings import DuplicatesAttack


class _Pusher(Member):
    __slots__ = ()

    def push_to_all(self, parcel: Received, copies: int) -> None:
        """Push what `parcel` brings to all neighbours but its sender, if it is new here."""
        message = parcel.message
        if isinstance(message, Gossip) and message.id not in self.topic.broadcast.store:
            others = [peer for peer in self.neighbors() if peer != parcel.peer]
            for _ in range(copies):
                self.transmit(replace(message, hops=message.hops + 1), others)


class CovertFlash(_Pusher):
    """`CovertFlashAttack`."""

    __slots__ = ()

    def receive(self, parcel: Received) -> None:
        if not self.striking and parcel.peer in self.links:
            self.push_to_all(parcel, 1)
        super().receive(parcel)


class Duplicates(_Pusher):
    """`DuplicatesAttack`."""

    __slots__ = ()

    def receive(self, parcel: Received) -> None:
        settings = self.ring.settings
        assert isinstance(settings, DuplicatesAttack)
        if self.striking and parcel.peer in self.links:
            self.push_to_all(parcel, settings.copies)
        super().receive(parcel)
