"""One topic of one node: membership (HyParView) and broadcast (Plumtree), joined.

This is what a driver drives. It passes each event to the machine that it belongs to, and the
links that membership adds and drops to broadcast.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
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
from episub_router.protocol.messages import (
    MAX_IDS,
    BroadcastMessage,
    Gossip,
    Graft,
    IHave,
    Prune,
    Root,
)
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import (
    PIECE_MESSAGES,
    PieceAnnounce,
    PieceMessage,
)
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.cutting import belongs
from episub_router.protocol.pieces.state import Belongs
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.standing.rules import BAN_TIME
from episub_router.protocol.types import GroupOf, MayBan, PeerId, Time, anyone, ungrouped

_BROADCAST_EVENTS = (
    ev.PayloadArrived, ev.PayloadAccepted, ev.PayloadRejected, ev.PayloadDropped, ev.Publish,
    ev.PublishInPieces,
)  # fmt: skip
_BROADCAST_MESSAGES = (Gossip, IHave, Prune, Graft, Root)


class Topic:
    """The state machine of node `me` in the topic `name`.

    `handle` and `handle_timer` return effects in order; `next_deadline` gives the time at which
    `handle_timer` is next due. `rng` is the only source of randomness, `group_of` and `may_ban` are
    the only functions of the driver that the core calls, beside `belongs` where payloads have no
    bytes.
    """

    __slots__ = ("_may_ban", "broadcast", "me", "membership", "name", "pieces")

    def __init__(
        self,
        me: PeerId,
        name: str,
        params: EpisubParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
        epoch: int = 0,
        belongs: Belongs = belongs,
        may_ban: MayBan = anyone,
    ) -> None:
        self.me = me
        self._may_ban = may_ban
        self.name = name
        source_trees = params.broadcast.source_trees > 0
        self.membership = HyParView(me, name, params.membership, rng, group_of, source_trees)
        self.broadcast = Plumtree(me, params.broadcast, rng, self.membership.rtt_of, epoch)
        # None where all messages go whole.
        in_pieces = params.broadcast.piece_threshold > 0
        rtt_of, charge = self.membership.rtt_of, self.broadcast.charge
        self.pieces = Pieces(params.broadcast, rtt_of, belongs, charge) if in_pieces else None

    def handle(self, event: ev.Event, now: Time) -> list[Effect]:
        """Act on `event` at time `now`."""
        if isinstance(event, ev.Received):
            message = event.message
            if isinstance(message, _BROADCAST_MESSAGES):
                return self._on_broadcast_message(event.peer, message, now)
            if isinstance(message, PIECE_MESSAGES):
                return self._on_piece_message(event.peer, message, now)
        elif isinstance(event, _BROADCAST_EVENTS):
            return self._on_broadcast_event(event, now)
        elif isinstance(event, ev.Connected):
            return self._on_connected(event, now)
        elif isinstance(event, ev.StandingSet):
            self.broadcast.standings.set(event.peer, event.standing)
            return self._ban_condemned(now)
        elif isinstance(event, ev.LeaveOverlay):
            # First, or each link that ends would repair the rest of the tree.
            self.broadcast.clear()
            if self.pieces is not None:
                self.pieces.clear()
        return self._pass_link_changes(self.membership.handle(event, now), now)

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        membership, broadcast = self.membership.next_deadline(), self.broadcast.next_deadline()
        if self.pieces is not None:
            broadcast = min(broadcast, self.pieces.next_deadline())
        return membership if membership < broadcast else broadcast

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        effects = self._ban_condemned(now)
        if self.membership.next_deadline() <= now:
            effects += self._pass_link_changes(self.membership.handle_timer(now), now)
        repairs = self.broadcast.handle_timer(now)
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
        if self.pieces is not None and self.pieces.next_deadline() <= now:
            effects += self.pieces.handle_timer(now)
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
        self, peer: PeerId, message: BroadcastMessage, now: Time
    ) -> list[Effect]:
        if not self.membership.joined:
            return [Dropped(peer, DropReason.NOT_JOINED)]
        if self.membership.is_banned(peer, now):
            return [Dropped(peer, DropReason.FROM_BANNED)]
        effects: list[Effect] = []
        pieces = self.pieces
        if pieces is not None:
            message, effects = self._without_pieces(pieces, peer, message)
        if (
            pieces is not None
            and isinstance(message, Gossip)
            and message.id in pieces
            and message.id not in self.broadcast.store
        ):
            # Whole, from a neighbour that takes no pieces: the others get it in pieces.
            effects += self.broadcast.accept_assembled(peer, message, pieces.takers, now)
        else:
            effects += self.broadcast.receive(peer, message, now)
        if not self.membership.note_activity(peer, now):
            effects += self.membership.on_non_neighbor(peer, now)
        return effects

    def _without_pieces(
        self, pieces: Pieces, peer: PeerId, message: BroadcastMessage
    ) -> tuple[BroadcastMessage, list[Effect]]:
        """`message` without what concerns messages that come or go in pieces, and what follows."""
        effects: list[Effect] = []
        if isinstance(message, IHave):
            left = tuple(line for line in message.summary if line.id not in pieces)
            return IHave(left), effects
        if isinstance(message, Graft) and message.ids and peer in pieces.takers:
            for id in message.ids[:MAX_IDS]:
                effects += pieces.offer(id, peer)
            if effects:
                ids = tuple(id for id in message.ids if id not in pieces)
                message = replace(message, ids=ids)
        return message, effects

    def _on_piece_message(self, peer: PeerId, message: PieceMessage, now: Time) -> list[Effect]:
        pieces = self.pieces
        if not self.membership.joined or pieces is None:
            return [Dropped(peer, DropReason.NOT_JOINED)]
        if not self.membership.note_activity(peer, now):
            return pieces.refuse(peer) + self.membership.on_non_neighbor(peer, now)
        if isinstance(message, PieceAnnounce):
            self.broadcast.note_answer(peer, message.preamble.id, now)
        return pieces.receive(peer, message, now) + self._ban_condemned(now)

    def _on_broadcast_event(self, event: ev.BroadcastEvent, now: Time) -> list[Effect]:
        if not self.membership.joined:
            return []
        if isinstance(event, ev.PublishInPieces):
            return self._publish_in_pieces(event, now)
        if isinstance(event, ev.PayloadAccepted) and self.pieces and event.id in self.pieces:
            hops = self.pieces.hops(event.id)
            return self.broadcast.accept_assembled(
                event.peer, Gossip(event.id, hops, event.payload, event.size, event.source),
                self.pieces.takers, now,
            )  # fmt: skip
        effects = self.broadcast.handle(event, now)
        if isinstance(event, ev.PayloadArrived) and not self.membership.note_activity(
            event.peer, now
        ):
            effects += self.membership.on_non_neighbor(event.peer, now)
        if isinstance(event, ev.PayloadRejected):
            effects += self._ban_condemned(now)
        return effects

    def _publish_in_pieces(self, event: ev.PublishInPieces, now: Time) -> list[Effect]:
        pieces, preamble = self.pieces, event.preamble
        whole = Gossip(preamble.id, 0, event.payload, event.size, preamble.source)
        takers: Collection[PeerId] = () if pieces is None else pieces.takers
        effects = self.broadcast.accept_assembled(None, whole, takers, now)
        return effects if pieces is None else effects + pieces.publish(preamble, event.pieces, now)

    def _on_connected(self, event: ev.Connected, now: Time) -> list[Effect]:
        known = event.peer in self.membership.active
        effects = self._pass_link_changes(self.membership.handle(event, now), now)
        if known:
            effects += self.broadcast.on_reconnected(event.peer, now)
            if self.pieces is not None:
                effects += self.pieces.on_neighbor_up(event.peer, now)
        return effects

    def _pass_link_changes(self, effects: list[Effect], now: Time) -> list[Effect]:
        """Pass link changes to broadcast; its effects follow those of membership."""
        added: list[Effect] = []
        for effect in effects:
            if isinstance(effect, NeighborUp | NeighborDown):
                added += self.broadcast.handle(effect, now)
                if self.pieces is None:
                    continue
                if isinstance(effect, NeighborUp):
                    added += self.pieces.on_neighbor_up(effect.peer, now)
                else:
                    added += self.pieces.on_neighbor_down(effect.peer, now)
        if not added:
            return effects
        # Of links that ended together, none is repaired over another.
        active = self.membership.active
        return effects + [
            effect for effect in added if not isinstance(effect, Send) or effect.peer in active
        ]
