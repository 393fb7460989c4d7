"""What the procedures of this package share: neighbours, transfers, trees and outgoing effects."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from episub_router.protocol import piece_messages as m
from episub_router.protocol.effects import Outbox
from episub_router.protocol.messages import MAX_HOPS
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.pieces.narrow_tree import NarrowTree, NarrowTrees
from episub_router.protocol.pieces.transfers import Transfer, Transfers, indices
from episub_router.protocol.types import MessageId, PeerId, RttOf, SourceId, Time
from episub_router.util.timers import TimerMap

Belongs: TypeAlias = Callable[[m.Preamble, m.Piece], bool]
"""Whether a piece is part of the message of a preamble."""

Charge: TypeAlias = Callable[[PeerId, Time], None]
"""Called with a peer that sent what no correct one passes on, and is to be banned."""

GREET, PULL, WANT, ASK = "greet", "pull", "want", "ask"
"""Timers: greet a peer again; look after a message; ask for the preamble of one; ask for a place in
the tree of a source."""

RECENT = 3.0
"""Seconds of whole messages that a new neighbour is announced, as Plumtree does, and that a new
child may not have known of when it asked."""

_HOP = 20
"""Milliseconds that a piece takes through one node, beside its way. Chosen: one of 62 KiB takes 25
ms at 20 Mbit/s, 10 at 50."""

_USUAL_LINK = 0.1
"""Round-trip time of a neighbour for ranks where it isn't known, in seconds."""


class PiecesState(Outbox):
    """One node's part in the large messages of one topic; only this package uses it."""

    __slots__ = (
        "_rtt_of", "belongs", "charge", "places", "takers", "timers", "transfers",
        "trees", "wanted",
    )  # fmt: skip

    def __init__(
        self, params: BroadcastParams, belongs: Belongs, rtt_of: RttOf, charge: Charge
    ) -> None:
        super().__init__()
        self.places = params.piece_children
        self.belongs = belongs
        self._rtt_of = rtt_of
        self.charge = charge
        self.takers: dict[PeerId, None] = {}  # Neighbours that take pieces
        self.wanted: dict[MessageId, PeerId] = {}
        """Messages for which there was no room, and those unknown of which a piece came, and the
        neighbour that is asked for the preamble; as many as may be under way."""
        self.transfers = Transfers()
        self.timers: TimerMap[tuple[str, Hashable]] = TimerMap()
        """All timers of the machine: what is to be done, and for which source, message or peer."""
        self.trees = NarrowTrees()

    def use_tree(self, source: SourceId, now: Time, *, own: bool = False) -> NarrowTree:
        """The tree of `source`, made if there is none."""
        return self.trees.use(source, now, own=own, forget=self._forget_tree)

    def _forget_tree(self, source: SourceId) -> None:
        self.timers.cancel((ASK, source))

    def has_room(self, tree: NarrowTree) -> bool:
        """Whether we have a place in `tree`."""
        return self.trees.has_room(tree, self.places)

    def rtt_of(self, peer: PeerId) -> float:
        """Seconds of a round trip to `peer`; 0 where that isn't known."""
        return self._rtt_of(peer) or 0.0

    def rank_below(self, parent: PeerId, rank: int) -> int:
        """Our rank as a child of `parent`, which has this `rank`."""
        rtt = self._rtt_of(parent)
        return rank + _HOP + round((_USUAL_LINK if rtt is None else rtt) * 500)

    def look_after(self, transfer: Transfer, at: Time) -> None:
        """Ask for what is missing of `transfer` at `at`, if nothing new comes till then."""
        self.timers.set((PULL, transfer.preamble.id), at)

    def announce(self, transfer: Transfer, peer: PeerId) -> None:
        """Announce `transfer` to `peer`, with what is here of it."""
        hops = min(transfer.hops + 1, MAX_HOPS)
        self.send(peer, m.PieceAnnounce(transfer.preamble, transfer.have, hops))

    def push(self, transfer: Transfer, peer: PeerId, mask: int) -> None:
        """Send `peer` the pieces in `mask` that are here and that it hasn't got."""
        mask &= transfer.have & transfer.lacked_by(peer)
        transfer.note_has(peer, mask)
        for index in indices(mask):
            piece = transfer.pieces[index]
            assert piece is not None
            self.send(peer, piece)

    def ask(self, transfer: Transfer, peer: PeerId, mask: int) -> None:
        """Ask `peer` for the pieces in `mask`, or what it has where that is none."""
        transfer.pulled[peer] = transfer.pulled.get(peer, 0) | mask
        self.send(peer, m.PieceGraft((m.PieceWant(transfer.preamble.id, mask),)))
