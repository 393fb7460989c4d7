"""One topic of one node: membership (HyParView) and broadcast (Plumtree), joined.

This is what a driver drives. It passes each event to the machine that it belongs to, and the
links that membership adds and drops to broadcast.
"""

from __future__ import annotations

from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol.effects import (
    Dropped,
    DropReason,
    Effect,
    NeighborDown,
    NeighborUp,
    Send,
)
from episub_router.protocol.hyparview import HyParView
from episub_router.protocol.messages import BroadcastMessage, Gossip, Graft, IHave, Prune, Root
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.types import GroupOf, PeerId, Time, ungrouped

_BROADCAST_EVENTS = (ev.PayloadArrived, ev.PayloadAccepted, ev.PayloadDropped, ev.Publish)
_BROADCAST_MESSAGES = (Gossip, IHave, Prune, Graft, Root)


class Topic:
    """The state machine of node `me` in the topic `name`.

    `handle` and `handle_timer` return effects in order; `next_deadline` gives the time at which
    `handle_timer` is next due. `rng` is the only source of randomness, `group_of` the only
    function of the driver that the core calls.
    """

    __slots__ = ("broadcast", "me", "membership", "name")

    def __init__(
        self,
        me: PeerId,
        name: str,
        params: EpisubParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
        epoch: int = 0,
    ) -> None:
        self.me = me
        self.name = name
        source_trees = params.broadcast.source_trees > 0
        self.membership = HyParView(me, name, params.membership, rng, group_of, source_trees)
        self.broadcast = Plumtree(me, params.broadcast, rng, self.membership.rtt_of, epoch)

    def handle(self, event: ev.Event, now: Time) -> list[Effect]:
        """Act on `event` at time `now`."""
        if isinstance(event, ev.Received):
            message = event.message
            if isinstance(message, _BROADCAST_MESSAGES):
                return self._on_broadcast_message(event.peer, message, now)
        elif isinstance(event, _BROADCAST_EVENTS):
            return self._on_broadcast_event(event, now)
        elif isinstance(event, ev.Connected):
            return self._on_connected(event, now)
        elif isinstance(event, ev.LeaveOverlay):
            # First, or each link that ends would repair the rest of the tree.
            self.broadcast.clear()
        return self._pass_link_changes(self.membership.handle(event, now), now)

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        membership, broadcast = self.membership.next_deadline(), self.broadcast.next_deadline()
        return membership if membership < broadcast else broadcast

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        effects: list[Effect] = []
        if self.membership.next_deadline() <= now:
            effects = self._pass_link_changes(self.membership.handle_timer(now), now)
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
        return effects

    def _on_broadcast_message(
        self, peer: PeerId, message: BroadcastMessage, now: Time
    ) -> list[Effect]:
        if not self.membership.joined:
            return [Dropped(peer, DropReason.NOT_JOINED)]
        effects = self.broadcast.receive(peer, message, now)
        if not self.membership.note_activity(peer, now):
            effects += self.membership.on_non_neighbor(peer, now)
        return effects

    def _on_broadcast_event(self, event: ev.BroadcastEvent, now: Time) -> list[Effect]:
        if not self.membership.joined:
            return []
        effects = self.broadcast.handle(event, now)
        if isinstance(event, ev.PayloadArrived) and not self.membership.note_activity(
            event.peer, now
        ):
            effects += self.membership.on_non_neighbor(event.peer, now)
        return effects

    def _on_connected(self, event: ev.Connected, now: Time) -> list[Effect]:
        known = event.peer in self.membership.active
        effects = self._pass_link_changes(self.membership.handle(event, now), now)
        if known:
            effects += self.broadcast.on_reconnected(event.peer, now)
        return effects

    def _pass_link_changes(self, effects: list[Effect], now: Time) -> list[Effect]:
        """Pass link changes to broadcast; its effects follow those of membership."""
        added: list[Effect] = []
        for effect in effects:
            if isinstance(effect, NeighborUp | NeighborDown):
                added += self.broadcast.handle(effect, now)
        if not added:
            return effects
        # Of links that ended together, none is repaired over another.
        active = self.membership.active
        return effects + [
            effect for effect in added if not isinstance(effect, Send) or effect.peer in active
        ]
