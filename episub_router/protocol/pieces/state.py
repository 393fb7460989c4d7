"""What the procedures of this package share: neighbours, transfers, trees and outgoing effects."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from episub_router.protocol.effects import Dropped, DropReason, Effect, Send
from episub_router.protocol.messages import MAX_HOPS
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.piece_messages import (
    Piece,
    PieceAnnounce,
    PieceGraft,
    PieceMessage,
    PieceWant,
    Preamble,
)
from episub_router.protocol.pieces.narrow_tree import NarrowTrees
from episub_router.protocol.pieces.transfer import Transfer, indices
from episub_router.protocol.pieces.transfers import Transfers
from episub_router.protocol.types import MessageId, PeerId, RttOf, SourceId, Time
from episub_router.util.timers import TimerMap

Belongs: TypeAlias = Callable[[Preamble, Piece], bool]
"""Whether a piece is part of the message of a preamble."""

Charge: TypeAlias = Callable[[PeerId, Time], None]
"""Called with a peer that sent what no correct one passes on."""

GREET, PULL, DEFER = "greet", "pull", "defer"
"""Timers: greet a peer again; look after a message; there may be room for one that was refused."""

ANSWER, ASK, RETRY, TRIM = "answer", "ask", "retry", "trim"
"""Timers of a tree: the answer to our request for a place is overdue; ask for a place; ask those
again that refused; drop spare children."""

RECENT = 3.0
"""Seconds of whole messages that a new neighbour is announced, as Plumtree does, and that a new
child may not have known of when it asked."""

_HOP = 20
"""Milliseconds that a piece takes through one node, beside its way: one of 32 KiB takes 13 ms at 20
Mbit/s, and waits for its turn."""

_USUAL_LINK = 50
"""Milliseconds of the way to a neighbour whose round-trip time isn't known."""


def nobody(peer: PeerId, now: Time) -> None:
    """Charge `peer` with nothing, where standings don't matter."""


class PiecesState:
    """One node's part in the large messages of one topic; only this package uses it."""

    __slots__ = (
        "_rtt_of",
        "belongs",
        "charge",
        "deferred",
        "distrusted",
        "effects",
        "params",
        "preambles_asked",
        "takers",
        "timers",
        "transfers",
        "trees",
    )

    def __init__(
        self, params: BroadcastParams, belongs: Belongs, rtt_of: RttOf, charge: Charge
    ) -> None:
        self.params = params
        self.belongs = belongs
        self._rtt_of = rtt_of
        self.charge = charge
        self.takers: dict[PeerId, None] = {}
        """Neighbours that take pieces."""
        self.distrusted: dict[PeerId, None] = {}
        """Neighbours that sent a piece that doesn't belong to its message, which no correct one
        passes on: they are asked for nothing."""
        self.deferred: dict[MessageId, tuple[PeerId, PieceAnnounce]] = {}
        """Announcements of messages for which there was no room; as many as may be under way."""
        self.preambles_asked: dict[MessageId, PeerId] = {}
        """Unknown messages of which a piece came, and the neighbour that was asked for the
        preamble; as many."""
        self.transfers = Transfers()
        self.trees = NarrowTrees(self._cancel_timers)
        self.timers: TimerMap[tuple[str, Hashable]] = TimerMap()
        """All timers of the machine: what is to be done, and for which source, message or peer."""
        self.effects: list[Effect] = []

    @property
    def givers(self) -> list[PeerId]:
        """Neighbours that can be asked for pieces."""
        return [peer for peer in self.takers if peer not in self.distrusted]

    def round_trips(self, peer: PeerId, count: int) -> float:
        """Seconds of so many round trips to `peer`; 0 where that isn't known."""
        return count * (self._rtt_of(peer) or 0.0)

    def rank_below(self, parent: PeerId, rank: int) -> int:
        """Our rank as a child of `parent`, which has this `rank`."""
        rtt = self._rtt_of(parent)
        way = _USUAL_LINK if rtt is None else round(rtt * 500)
        return rank + _HOP + way

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order; every event ends with this."""
        effects, self.effects = self.effects, []
        return effects

    def send(self, peer: PeerId, message: PieceMessage) -> None:
        self.effects.append(Send(peer, message))

    def drop(self, peer: PeerId | None, reason: DropReason) -> None:
        self.effects.append(Dropped(peer, reason))

    def look_after(self, transfer: Transfer, at: Time) -> None:
        """Ask for what is missing of `transfer` at `at`, if nothing new comes till then."""
        self.timers.set((PULL, transfer.preamble.id), at)

    def _cancel_timers(self, source: SourceId) -> None:
        """The tree of `source` is forgotten."""
        for kind in (ANSWER, ASK, RETRY, TRIM):
            self.timers.cancel((kind, source))

    def announce(self, transfer: Transfer, peer: PeerId) -> None:
        """Announce `transfer` to `peer`, with what is here of it."""
        hops = min(transfer.hops + 1, MAX_HOPS)
        self.send(peer, PieceAnnounce(transfer.preamble, transfer.have, hops))

    def push(self, transfer: Transfer, peer: PeerId, mask: int) -> None:
        """Send `peer` the pieces in `mask` that are here and that it hasn't got."""
        mask &= transfer.have & ~transfer.taken.get(peer, 0)
        transfer.note_taken(peer, mask)
        for index in indices(mask):
            piece = transfer.pieces[index]
            assert piece is not None
            self.send(peer, piece)

    def ask(self, transfer: Transfer, peer: PeerId, mask: int) -> None:
        """Ask `peer` for the pieces in `mask`."""
        transfer.pulled[peer] = transfer.pulled.get(peer, 0) | mask
        self.send(peer, PieceGraft((PieceWant(transfer.preamble.id, mask),)))
