"""Stabilisation: an active view that is too large shrinks to its size (E16).

Joins oversubscribe views on purpose (E13). A node with too many links periodically asks its
neighbours how many they have, then for their lists, and ends links that neither side needs. A view
that is too small is left to `neighbor_request` (E17).
"""

from __future__ import annotations

from episub_router.protocol.effects import DownReason
from episub_router.protocol.hyparview.link_check import send_query
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.rings.links import kept_links
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import Link
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.types import PeerId, Time

LIST_TIMEOUT = 1.0
"""Seconds that neighbours have to send their lists. Ours: a round trip of 300 ms, with room."""

RING_OVERLAP = 10.0
"""Seconds for which a link stays at least that isn't on a ring any more. Ours: both ends find those
that come in its place."""


class Stabilization(Procedure):
    """Asks for numbers of links when there are too many, and drops some once they have arrived. If
    there still are too many, it asks for lists, which show triangles."""

    __slots__ = ("_asked_at", "_asked_lists")

    def __init__(self, state: OverlayState) -> None:
        super().__init__(state)
        self._asked_at: Time | None = None
        """When the neighbours were asked; None when they weren't."""
        self._asked_lists = False
        """Whether it was for their lists."""

    def start(self, now: Time) -> None:
        self.deadline = now + self._state.jittered(self._state.params.stabilize_interval)

    def fire(self, now: Time) -> None:
        state = self._state
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is not None:
            self._drop_links(asked_at, now)
        if len(state.active) > state.params.active_size and not self._asked_lists:
            self._asked_lists = asked_at is not None
            for peer, link in state.active.items():
                send_query(state, peer, link, with_list=self._asked_lists)
            self._asked_at = now
            self.deadline = now + LIST_TIMEOUT
        else:
            self._asked_lists = False
            self.start(now)

    def _drop_links(self, asked_at: Time, now: Time) -> None:
        """First links to peers that can spare one, then sides of triangles; never below A.

        A link that was made because the peer needs it, and where the peer says so still, counts
        as one that can be spared: anybody can say so.
        """
        state = self._state
        answered = [
            (peer, link) for peer, link in state.active.items() if link.answered_at >= asked_at
        ]
        # Peers with the most links first: both sides gain. Among those, the farthest.
        state.rng.shuffle(answered)
        answered.sort(key=lambda entry: (-entry[1].links, -state.distance(entry[1])))
        if state.places is not None and state.params.ring_links == state.params.random_links:
            # Links that others took the place of on a ring: the other end has found its own.
            for peer, link in list(state.active.items()):
                if link.kind is LinkKind.RANDOM and now - link.since >= RING_OVERLAP:
                    self._drop(peer, link)
        for peer, link in answered:
            if link.random_links > state.params.random_links or state.has_had_time(link, now):
                self._drop(peer, link)
        for peer, link in answered:
            if link.listed_at >= asked_at and self._in_triangle(peer):
                self._drop(peer, link)

    def _drop(self, peer: PeerId, link: Link) -> None:
        """End the link, unless we need it for our size or for our random links."""
        state = self._state
        params = state.params
        if peer not in state.active or len(state.active) <= params.active_size:
            return
        if peer in kept_links(state):
            return
        needed = params.random_links if link.kind is LinkKind.RANDOM else params.near_links
        if state.active.count(link.kind) > needed:
            state.drop_link(peer, DownReason.EVICTED, notify=True, remember=True)

    def _in_triangle(self, peer: PeerId) -> bool:
        """Whether `peer` has a link to another neighbour of ours."""
        active = self._state.active
        link = active.get(peer)
        return link is not None and any(other in active for other in link.peers)

    def stop(self) -> None:
        super().stop()
        self._asked_at, self._asked_lists = None, False
