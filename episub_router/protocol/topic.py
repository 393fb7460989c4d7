"""One topic of one node: membership (HyParView) and broadcast (Plumtree), joined.

This is what a driver drives. It passes each event to the machine that it belongs to, and the
links that membership adds and drops to broadcast.
"""

from __future__ import annotations

from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol.effects import (
    Ban,
    Dropped,
    DropReason,
    Effect,
    NeighborDown,
    NeighborUp,
    Send,
)
from episub_router.protocol.hyparview import HyParView
from episub_router.protocol.messages import BROADCAST_MESSAGES, BroadcastMessage, Graft
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import PIECE_MESSAGES, PieceMessage
from episub_router.protocol.pieces import LargeBroadcast, Pieces
from episub_router.protocol.pieces.cutting import belongs
from episub_router.protocol.pieces.state import Belongs
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.standing import BAN_TIME
from episub_router.protocol.types import (
    GroupOf,
    MayBan,
    PeerId,
    SourceOf,
    Time,
    anyone,
    itself,
    ungrouped,
)

_BROADCAST_EVENTS = (
    ev.PayloadArrived, ev.PayloadAccepted, ev.PayloadRejected, ev.PayloadDropped, ev.Publish,
    ev.PublishInPieces,
)  # fmt: skip

_CARRIED = (*BROADCAST_MESSAGES, *PIECE_MESSAGES)
"""Messages that go to broadcast; the others go to membership."""


class Topic:
    """The state machine of node `me` in the topic `name`.

    `handle` and `handle_timer` return effects in order; `next_deadline` gives the time at which
    `handle_timer` is next due. `rng` is the only source of randomness, `group_of`, `may_ban`
    and `source_of` are the only functions of the driver that the core calls, beside `belongs` where
    payloads have no bytes.
    """

    __slots__ = ("_carrier", "_may_ban", "broadcast", "me", "membership", "name", "pieces")

    def __init__(
        self,
        me: PeerId,
        name: str,
        params: EpisubParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
        clock: float = 0.0,
        belongs: Belongs = belongs,
        may_ban: MayBan = anyone,
        secret: bytes = b"",
        source_of: SourceOf = itself,
    ) -> None:
        self.me = me
        self._may_ban = may_ban
        self.name = name
        self.membership = HyParView(me, name, params.membership, rng, group_of)
        rtt_of = self.membership.rtt_of
        self.broadcast = Plumtree(params.broadcast, rng, rtt_of, clock, secret, source_of)
        self._carrier: Plumtree | LargeBroadcast = self.broadcast
        """What broadcast messages and events go through."""
        self.pieces: Pieces | None = None
        """The large messages, where they go in pieces; a read-only view."""
        if params.broadcast.piece_threshold > 0:
            large = LargeBroadcast(params.broadcast, self.broadcast, rtt_of, belongs)
            self._carrier, self.pieces = large, large.pieces

    def handle(self, event: ev.Event, now: Time) -> list[Effect]:
        """Act on `event` at time `now`."""
        if isinstance(event, ev.Received):
            message = event.message
            if isinstance(message, _CARRIED):
                return self._on_broadcast_message(event.peer, message, now)
        elif isinstance(event, _BROADCAST_EVENTS):
            return self._on_broadcast_event(event, now)
        elif isinstance(event, ev.Connected):
            return self._on_connected(event, now)
        elif isinstance(event, ev.StandingSet):
            self.broadcast.standings.set(event.peer, event.standing)
            return self._ban_condemned(now)
        elif isinstance(event, ev.LeaveOverlay):
            # First, or each link that ends would repair the rest of the tree.
            self._carrier.clear()
        return self._pass_link_changes(self.membership.handle(event, now), now)

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        membership, broadcast = self.membership.next_deadline(), self._carrier.next_deadline()
        return membership if membership < broadcast else broadcast

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        effects = self._ban_condemned(now)
        if self.membership.next_deadline() <= now:
            effects += self._pass_link_changes(self.membership.handle_timer(now), now)
        repairs = self._carrier.handle_timer(now)
        asked = [
            effect.peer
            for effect in repairs
            if isinstance(effect, Send) and isinstance(effect.message, Graft) and effect.message.ids
        ]
        effects += repairs
        if asked:
            # Those that should have pushed what is missing, and those that were asked before.
            suspects = dict.fromkeys([*self.broadcast.parents(now), *asked])
            effects += self.membership.suspect(suspects, now)
        return effects

    def _ban_condemned(self, now: Time) -> list[Effect]:
        """Ban the neighbours whose standing is too bad, if the driver lets us."""
        effects: list[Effect] = []
        for peer in self.broadcast.condemned(now):
            if self._may_ban(peer):
                ended = self.membership.ban(peer, now + BAN_TIME, now)
                effects += [Ban(peer, BAN_TIME), *self._pass_link_changes(ended, now)]
            else:
                self.broadcast.standings.forgive(peer)
        return effects

    def _on_broadcast_message(
        self, peer: PeerId, message: BroadcastMessage | PieceMessage, now: Time
    ) -> list[Effect]:
        if not self.membership.joined:
            return [Dropped(peer, DropReason.NOT_JOINED)]
        if self.membership.is_banned(peer, now):
            return [Dropped(peer, DropReason.FROM_BANNED)]
        if isinstance(message, BROADCAST_MESSAGES):
            return self._carrier.receive(peer, message, now) + self._note_activity(peer, now)
        if isinstance(self._carrier, LargeBroadcast):
            effects = self._carrier.receive(peer, message, now)
            # A neighbour that is banned now is no stranger yet.
            return effects + self._note_activity(peer, now) + self._ban_condemned(now)
        return [Dropped(peer, DropReason.NOT_JOINED)]

    def _on_broadcast_event(self, event: ev.BroadcastEvent, now: Time) -> list[Effect]:
        if not self.membership.joined:
            return []
        effects = self._carrier.handle(event, now)
        if isinstance(event, ev.PayloadArrived):
            effects += self._note_activity(event.peer, now)
        elif isinstance(event, ev.PayloadRejected):
            effects += self._ban_condemned(now)
        return effects

    def _note_activity(self, peer: PeerId, now: Time) -> list[Effect]:
        """`peer` has sent a broadcast message: one that is no neighbour is notified (E12)."""
        if self.membership.note_activity(peer, now):
            return []
        return self.membership.on_non_neighbor(peer, now)

    def _on_connected(self, event: ev.Connected, now: Time) -> list[Effect]:
        known = event.peer in self.membership.active
        effects = self._pass_link_changes(self.membership.handle(event, now), now)
        return effects + self._carrier.on_reconnected(event.peer, now) if known else effects

    def _pass_link_changes(self, effects: list[Effect], now: Time) -> list[Effect]:
        """Pass link changes to broadcast; its effects follow those of membership."""
        added: list[Effect] = []
        for effect in effects:
            if isinstance(effect, NeighborUp | NeighborDown):
                added += self._carrier.handle(effect, now)
        if not added:
            return effects
        # Of links that ended together, none is repaired over another.
        active = self.membership.active
        return effects + [
            effect for effect in added if not isinstance(effect, Send) or effect.peer in active
        ]
