"""A hostile node of an Episub overlay: the honest node, between an attack and the network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from episub_router.protocol.events import Publish, Received
from episub_router.protocol.messages import Gossip, IHave, Message, Root, TreeRoot
from episub_router.protocol.piece_messages import Piece, PieceAnnounce
from episub_router.sim.adversaries.hostile import Hostile
from episub_router.sim.records import HOSTILE
from episub_router.sim.routers.episub import EpisubNode, columns
from episub_router.sim.sizes import SIGNED_PAYLOAD, episub_control

INVENTED = 1_000_000_000
"""The first id of peers and sources that don't exist, far above those that do."""
_PUBLISH_PERIOD = 0.5
"""Seconds between two messages of sources that the members of a ring made up."""
_INVENTED_SIZE = 100


class Member(Hostile, EpisubNode):
    """`CensorAttack`: a member of `ring`. Other kinds override what they do beside that.

    Its deliveries and drops aren't recorded, and what it sends is counted apart.
    """

    __slots__ = ("_copied", "_published", "ring", "rounds_ahead")

    def __init__(self, *arguments: Any) -> None:
        *own, self.ring = arguments
        super().__init__(*own)
        self.enter_ring()
        self.rounds_ahead = 0
        """How far ahead of the true ones the rounds are that it forges."""
        self._copied: dict[int, None] = {}
        """Messages that it has received. Bound: the run's."""
        self._published = 0
        """Messages of sources that it made up."""

    # What kinds override.

    def takes(self, peer: int, message: Message) -> bool:
        """Whether `message` from `peer` was dealt with, so that the core doesn't see it; asked
        while striking."""
        del peer, message
        return False

    def disguised(self, message: Message) -> Message | None:
        """What is sent in place of the core's `message`, if anything; asked while striking."""
        if isinstance(message, Gossip | Piece | PieceAnnounce):
            if any(map(self.withholds, self.messages_in(Received(self.id, message)))):
                return None
            hops = self.ring.settings.hops
            return replace(message, hops=hops) if hops and isinstance(message, Gossip) else message
        if isinstance(message, IHave):
            shown = [entry for entry in message.summary if not self.withholds(entry.id)]  # type: ignore[arg-type]
            hops = self.ring.settings.hops
            shown = [entry._replace(hops=hops or entry.hops) for entry in shown]
            return IHave(tuple(shown)) if shown else None
        if isinstance(message, Root) and message.roots:
            return replace(message, roots=tuple(map(self.claim, message.roots)))
        return message

    def claim(self, root: TreeRoot) -> TreeRoot:
        """`root` as it is passed on."""
        return root._replace(cost=self.ring.settings.cost * root.cost)

    # What kinds use.

    def transmit(self, message: Message, peers: Iterable[int]) -> None:
        """Send `message` to those of `peers` that are connected."""
        connected = [peer for peer in peers if peer in self.links]
        if isinstance(message, Piece):
            self._send_piece(message, connected)
            return
        size = episub_control(message)
        if isinstance(message, Gossip):
            size += SIGNED_PAYLOAD + message.size
        self._note_sent(message, connected, size)
        self.network.send(self, connected, Received(self.id, message), size)

    def _note_sent(self, message: Message, peers: list[int], size: int) -> None:
        self.records.sent(HOSTILE, len(peers), size)
        if self.records.trace is not None:
            self.trace_send(peers, size, **columns(message))

    def _note_piece_sent(self, piece: Piece, peer: int) -> None:
        self._note_sent(piece, [peer], episub_control(piece) + piece.size)

    # Between the core and the network.

    def receive(self, parcel: Received) -> None:
        peer: Any = parcel.peer
        message = parcel.message
        if peer not in self.links:
            return
        if isinstance(message, Gossip) and message.id not in self._copied:
            self._copied[message.id] = None  # type: ignore[index]
            others = [other for other in self.neighbors() if other != peer]
            for _ in range(self.copies(message.id)):  # type: ignore[arg-type]
                self.transmit(replace(message, hops=message.hops + 1), others)
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
        if isinstance(shown, Gossip | Piece):
            self.late(lambda payload: self.transmit(payload, peers), shown)
        elif shown is not None:
            self.transmit(shown, peers)

    def _strike(self, at: None) -> None:
        super()._strike(at)
        if self.ring.settings.invents:
            self.every(_PUBLISH_PERIOD * len(self.ring.members), self._publish_invented)

    def _publish_invented(self) -> None:
        settings = self.ring.settings
        which = self._published % settings.invents
        self._published += 1
        message = self.records.publish(self.loop.now, self.id, _INVENTED_SIZE)
        source = INVENTED + self.id * settings.invents + which
        self._handle(Publish(message, None, _INVENTED_SIZE, source))

    def _relink(self) -> None:
        peers = (*self.links,)
        super()._relink()
        self.meet(peers)

    def _on_deliver(self, effect: Any) -> None:
        pass

    def _on_dropped(self, effect: Any) -> None:
        pass
