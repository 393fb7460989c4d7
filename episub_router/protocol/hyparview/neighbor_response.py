"""Neighbour responses: which NEIGHBOR requests of others are accepted (E10)."""

from __future__ import annotations

from episub_router.protocol.effects import DownReason, DropReason, MeasureRtt
from episub_router.protocol.hyparview.proximity import farther_neighbor
from episub_router.protocol.hyparview.rings.links import is_next_on_a_ring, make_room_on_ring
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Disconnect, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.tables import take
from episub_router.protocol.types import PeerId, Time

MAX_MEASURING = 64
"""Requests that wait for an RTT at once."""


class NeighborResponses:
    """Decides on the NEIGHBOR requests of others (E10)."""

    __slots__ = ("_measuring", "_state")

    def __init__(self, state: OverlayState) -> None:
        self._state = state
        self._measuring: dict[PeerId, Neighbor] = {}
        """Requests that wait for an RTT."""

    def on_request(self, sender: PeerId, request: Neighbor, now: Time) -> None:
        """NEIGHBOR: room, need or nearness decide, in this order (E10)."""
        state = self._state
        params = state.params
        size = len(state.active)
        link = state.active.get(sender)
        if link is not None:
            link.update(request, now)
            state.send_neighbor(sender, NeighborRole.ACCEPT, link.kind, nonce=request.nonce)
        elif is_next_on_a_ring(state, sender):
            make_room_on_ring(state)
            self._admit(sender, LinkKind.RANDOM, request, now)
        elif size < params.active_size:
            # Room that our random links need is not given to a near one.
            short = state.active.count(LinkKind.RANDOM) < params.random_links
            full = state.active.count(LinkKind.NEAR) >= params.near_links
            self._admit(sender, LinkKind.RANDOM if short and full else request.kind, request, now)
        elif self._in_need(request) and state.has_room_for_wish(sender):
            self._admit(sender, LinkKind.RANDOM, request, now)
        elif sender in self._measuring:
            self._measuring[sender] = request
        elif params.near_links and len(self._measuring) < MAX_MEASURING:
            self._measuring[sender] = request
            state.emit(MeasureRtt(sender))
        else:
            self._reject(sender)

    def _in_need(self, request: Neighbor) -> bool:
        """Whether the asker lacks links, or the random ones among them."""
        least = self._state.params.random_links
        return request.links < least or (
            request.kind is LinkKind.RANDOM and request.random_links < least
        )

    def on_rtt(self, peer: PeerId, rtt: float | None, now: Time) -> None:
        """The round trip to a peer that asked: is it nearer than a near neighbour? (E10)"""
        request = take(self._measuring, peer)
        if request is None or peer in self._state.active:
            return
        if rtt is not None and len(self._state.active) < self._state.params.active_size:
            self.on_request(peer, request, now)
            return
        victim = None if rtt is None else farther_neighbor(self._state, rtt, now)
        if victim is None:
            self._reject(peer)
        else:
            self._state.drop_link(victim, DownReason.EVICTED, notify=True, remember=True)
            self._state.found_nearer = True
            self._admit(peer, LinkKind.NEAR, request, now)

    def _admit(self, peer: PeerId, kind: LinkKind, request: Neighbor, now: Time) -> None:
        self._state.add_on_wish(peer, kind, now, request)
        self._state.send_neighbor(peer, NeighborRole.ACCEPT, kind, nonce=request.nonce)

    def _reject(self, peer: PeerId) -> None:
        self._state.drop(peer, DropReason.VIEW_FULL)
        self._state.send(peer, Disconnect())
        self._state.release(peer)

    def on_peer_down(self, peer: PeerId) -> None:
        take(self._measuring, peer)

    def stop(self) -> None:
        self._measuring.clear()
