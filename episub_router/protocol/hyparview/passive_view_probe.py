"""Upkeep of the passive view: is the peer there, in the topic, and how far (E21)."""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import MeasureRtt
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import GetTopics, LinkKind, NeighborRole, Topics
from episub_router.protocol.types import NEVER, PeerId, Time

_PATIENCE = 12
"""Fruitless periods after which they grow to twice their length."""

_MOST_STRETCH = 8

_DIALLING = 0.2
"""Share of the time that the dials of one period may take, one after the other: where they are
slow, this node or its machine is busy."""


class PassiveViewProbe:
    """Checks a few passive peers each period, those first that were never measured.

    A near neighbour's own neighbours are likely to be near: one near neighbour is asked for
    its list each period, and what is new in it is among those checked next.

    The search is for nearer peers: while none takes a neighbour's place, periods grow longer.
    """

    __slots__ = ("_checking", "_fruitless", "_name", "_overlay", "deadline")

    def __init__(self, overlay: OverlayState, name: str) -> None:
        self._overlay = overlay
        self._name = name
        self._checking: dict[PeerId, bool] = {}
        """Peers that were asked in this period; True once they have said that they are in the
        topic, and until they are measured."""
        self._fruitless = _PATIENCE
        """Periods since a nearer peer was found. Who joins has more urgent dials to make."""
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        self._schedule(now)

    def _schedule(self, now: Time) -> None:
        params = self._overlay.params
        # Where all are near, what remains is to see who is still there.
        rest = self._overlay.all_near
        stretch = min(2 ** (self._fruitless // _PATIENCE), _MOST_STRETCH)
        interval = params.upkeep_rest_interval if rest else stretch * params.upkeep_interval
        interval = max(interval, params.upkeep_peers * self._overlay.dial_time / _DIALLING)
        self.deadline = now + self._overlay.jittered(interval)

    def fire(self, now: Time) -> None:
        overlay = self._overlay
        for peer in [peer for peer, answered in self._checking.items() if not answered]:
            del self._checking[peer]
            overlay.passive.remove(peer)
        self._fruitless = 0 if overlay.found_nearer else self._fruitless + 1
        overlay.found_nearer = False
        self._schedule(now)
        for peer in self._chosen():
            overlay.when_connected(peer, partial(self._ask, peer), now)
        near = [peer for peer, link in overlay.active.items() if link.kind is LinkKind.NEAR]
        for peer in pick_some(overlay.rng, near, 1):
            overlay.tell(peer, NeighborRole.QUERY, LinkKind.NEAR)

    def on_link_lost(self, now: Time) -> None:
        """A neighbour is gone, so passive peers may be too: look at them soon again."""
        if self._fruitless > _PATIENCE and self.deadline < NEVER:
            self._fruitless = 0
            self._schedule(now)

    def _chosen(self) -> list[PeerId]:
        """Neighbours of near neighbours, then peers never measured, then any."""
        overlay = self._overlay
        count = overlay.params.upkeep_peers
        near: dict[PeerId, PeerId] = {}
        for neighbor, link in overlay.active.items():
            if link.kind is LinkKind.NEAR:
                near.update(dict.fromkeys(link.peers, neighbor))
        near.pop(overlay.me, None)
        new = [p for p in near if p not in overlay.active and overlay.passive.rtt(p) is None]
        chosen = pick_some(overlay.rng, new, (count + 1) // 2)
        for peer in chosen:
            overlay.remember(peer, near[peer])
        others = [peer for peer in overlay.passive if peer not in chosen]
        unmeasured = [peer for peer in others if overlay.passive.rtt(peer) is None]
        return chosen + pick_some(overlay.rng, unmeasured or others, count - len(chosen))

    def _ask(self, peer: PeerId, up: bool, now: Time) -> None:
        if up and peer not in self._checking:
            self._checking[peer] = False
            self._overlay.send(peer, GetTopics())

    def on_topics(self, sender: PeerId, message: Topics) -> None:
        """TOPICS: measure who is still in the topic, forget who isn't."""
        overlay = self._overlay
        if self._name not in message.topics:
            overlay.passive.remove(sender)
            overlay.release(sender)
        elif sender in self._checking:
            self._checking[sender] = True
            overlay.emit(MeasureRtt(sender))

    def on_rtt(self, peer: PeerId) -> None:
        """The measurement has ended, one way or the other."""
        if self._checking.pop(peer, False):
            self._overlay.release(peer)

    def stop(self) -> None:
        self._checking.clear()
        self.deadline = NEVER
