"""Passive view probe: is a passive peer alive, in the topic, and how far away (E21)?

Each period asks a few passive peers with GETTOPICS and measures their RTT. One near neighbour
is asked for its list too, since its neighbours are likely to be near. The aim is to find nearer
peers: while none replaces a neighbour, periods grow longer.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import MeasureRtt
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import GetTopics, LinkKind, NeighborRole, Topics
from episub_router.protocol.tables import take
from episub_router.protocol.types import NEVER, PeerId, Time

REST_INTERVAL = 120.0
"""Seconds, in place of `upkeep_interval` where all neighbours are near. Ours: a full view is then
probed in 21 minutes."""

_PATIENCE = 12
"""Fruitless periods after which they grow to twice their length."""

_MAX_STRETCH = 8
"""How many times longer than `upkeep_interval` periods grow."""

_DIALLING = 0.2
"""Share of the time that the dials of one period may take one after the other: where dials are
slow, this node or its machine is busy."""


class PassiveViewProbe(Procedure):
    """Probes a few passive peers each period, first those that were never measured."""

    __slots__ = ("_fruitless", "_name", "_probed", "_probed_at")

    def __init__(self, state: OverlayState, name: str) -> None:
        super().__init__(state)
        self._name = name
        self._probed: dict[PeerId, bool] = {}
        """Peers asked in this period; True once TOPICS has named the topic, until measured."""
        self._fruitless = _PATIENCE
        """Periods since a nearer peer was found. Longer ones first: a join needs its dials."""
        self._probed_at = -NEVER
        """When peers were last asked, or would first have been."""

    def start(self, now: Time) -> None:
        state = self._state
        stretch = min(2 ** (self._fruitless // _PATIENCE), _MAX_STRETCH)
        interval = REST_INTERVAL if state.all_near else stretch * state.params.upkeep_interval
        interval = max(interval, state.params.upkeep_peers * state.dial_time / _DIALLING)
        self.deadline = now + state.jittered(interval)

    def fire(self, now: Time) -> None:
        state = self._state
        if self._probed_at == -NEVER:
            self._probed_at = now
        # The first period is set before it is known that there is nothing nearer to look for.
        is_early = now < self._probed_at + REST_INTERVAL / 2
        if state.all_near and (is_early or state.may_rest(self._probed_at, REST_INTERVAL, now)):
            self.start(now)
            return
        self._probed_at = now
        for peer in [peer for peer, answered in self._probed.items() if not answered]:
            take(self._probed, peer)
            state.passive.remove(peer)
        self._fruitless = 0 if state.found_nearer else self._fruitless + 1
        state.found_nearer = False
        self.start(now)
        for peer in self._choose():
            state.when_connected(peer, partial(self._ask, peer), now)
        near = [peer for peer, link in state.active.items() if link.kind is LinkKind.NEAR]
        for peer in pick_some(state.rng, near, 1):
            state.send_neighbor(peer, NeighborRole.QUERY, LinkKind.NEAR)

    def on_link_lost(self, now: Time) -> None:
        """A neighbour is gone, so passive peers may be too: probe them soon."""
        if self._fruitless > _PATIENCE and self.deadline < NEVER:
            self._fruitless = 0
            self.start(now)

    def _choose(self) -> list[PeerId]:
        """Neighbours of near neighbours, then peers never measured, then any."""
        state = self._state
        count = state.params.upkeep_peers
        near: dict[PeerId, PeerId] = {}
        for neighbor, link in state.active.items():
            if link.kind is LinkKind.NEAR:
                near.update(dict.fromkeys(link.peers, neighbor))
        near.pop(state.me, None)
        new = [p for p in near if p not in state.active and state.passive.rtt(p) is None]
        chosen = pick_some(state.rng, new, (count + 1) // 2)
        for peer in chosen:
            state.remember(peer, near[peer])
        others = [peer for peer in state.passive if peer not in chosen]
        unmeasured = [peer for peer in others if state.passive.rtt(peer) is None]
        return chosen + pick_some(state.rng, unmeasured or others, count - len(chosen))

    def _ask(self, peer: PeerId, up: bool, now: Time) -> None:
        if up and peer not in self._probed:
            self._probed[peer] = False
            self._state.send(peer, GetTopics())

    def on_topics(self, sender: PeerId, message: Topics) -> None:
        """TOPICS: measure a peer that is still in the topic, forget one that isn't."""
        state = self._state
        if self._name not in message.topics:
            state.passive.remove(sender)
            state.release(sender)
        elif sender in self._probed:
            self._probed[sender] = True
            state.emit(MeasureRtt(sender))

    def on_rtt(self, peer: PeerId) -> None:
        """The measurement of `peer` has ended, with or without an RTT."""
        if take(self._probed, peer):
            self._state.release(peer)

    def stop(self) -> None:
        super().stop()
        self._probed.clear()
