"""One topic of one node: membership and broadcast, joined.

This is what a driver drives. It hands each event to the machine that it belongs to, and
tells broadcast of the neighbours that membership gains and loses.
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
from episub_router.protocol.messages import BroadcastMessage, Gossip, Graft, IHave, Prune
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.types import GroupOf, PeerId, Time, ungrouped

_BROADCAST_EVENTS = (ev.PayloadArrived, ev.PayloadAccepted, ev.PayloadDropped, ev.Publish)
_TREE_MESSAGES = (Gossip, IHave, Prune, Graft)


class Topic:
    """The state machine of node `me` in the topic `name`.

    `handle` and `handle_timer` return effects in order; `next_deadline` says when
    `handle_timer` is next due. `rng` is the only source of randomness, `group_of` the only
    question that the core asks its driver.
    """

    __slots__ = ("broadcast", "me", "membership", "name")

    def __init__(
        self,
        me: PeerId,
        name: str,
        params: EpisubParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
    ) -> None:
        self.me = me
        self.name = name
        self.membership = HyParView(me, name, params.membership, rng, group_of)
        self.broadcast = Plumtree(me, params.broadcast, rng)

    def handle(self, event: ev.Event, now: Time) -> list[Effect]:
        """Act on `event` at time `now`."""
        if isinstance(event, ev.Received):
            message = event.message
            if isinstance(message, _TREE_MESSAGES):
                return self._on_tree_message(event.peer, message, now)
        elif isinstance(event, _BROADCAST_EVENTS):
            return self._on_broadcast_event(event, now)
        elif isinstance(event, ev.Connected):
            return self._on_connected(event, now)
        elif isinstance(event, ev.RttMeasured):
            self.broadcast.handle(event, now)
        elif isinstance(event, ev.LeaveOverlay):
            # First, or each link that ends would have the rest of the tree repaired.
            self.broadcast.clear()
        return self._tell_broadcast(self.membership.handle(event, now), now)

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        membership, broadcast = self.membership.next_deadline(), self.broadcast.next_deadline()
        return membership if membership < broadcast else broadcast

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        effects: list[Effect] = []
        if self.membership.next_deadline() <= now:
            effects = self._tell_broadcast(self.membership.handle_timer(now), now)
        effects += self.broadcast.handle_timer(now)
        return effects

    def _on_tree_message(self, peer: PeerId, message: BroadcastMessage, now: Time) -> list[Effect]:
        if not self.membership.joined:
            return [Dropped(peer, DropReason.NOT_JOINED)]
        effects = self.broadcast.receive(peer, message, now)
        if not self.membership.heard(peer, now):
            effects += self.membership.stranger(peer, now)
        return effects

    def _on_broadcast_event(self, event: ev.BroadcastEvent, now: Time) -> list[Effect]:
        if not self.membership.joined:
            return []
        effects = self.broadcast.handle(event, now)
        if type(event) is ev.PayloadArrived and not self.membership.heard(event.peer, now):
            effects += self.membership.stranger(event.peer, now)
        return effects

    def _on_connected(self, event: ev.Connected, now: Time) -> list[Effect]:
        known = event.peer in self.membership.active
        effects = self._tell_broadcast(self.membership.handle(event, now), now)
        if known:
            effects += self.broadcast.on_reconnected(event.peer, now)
        return effects

    def _tell_broadcast(self, effects: list[Effect], now: Time) -> list[Effect]:
        """Hand link changes to broadcast; its answers follow what membership wants."""
        answers: list[Effect] = []
        for effect in effects:
            if type(effect) is NeighborUp or type(effect) is NeighborDown:
                answers += self.broadcast.handle(effect, now)
        if not answers:
            return effects
        # Of links that ended together, the first must not be repaired over the others.
        active = self.membership.active
        return effects + [
            answer for answer in answers if type(answer) is not Send or answer.peer in active
        ]
