"""Stabilisation: bringing an active view that is too large back to its size (E16).

Joins oversubscribe views on purpose (E13). Now and then a node with too many links asks its
neighbours for their lists, and ends links that neither side needs. A view that is too small
is `NeighborRequests`'s matter (E17).
"""

from __future__ import annotations

from episub_router.protocol.effects import DownReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import Link
from episub_router.protocol.messages import LinkKind, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time


class Stabilization:
    """Asks for lists when there are too many links, and drops some when they have come."""

    __slots__ = ("_asked_at", "_overlay", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._asked_at: Time | None = None
        """When the neighbours were asked for their lists; None when they weren't."""
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        self._schedule(now)

    def fire(self, now: Time) -> None:
        overlay = self._overlay
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is not None:
            self._drop_links(asked_at)
        elif len(overlay.active) > overlay.params.active_size:
            for peer, link in overlay.active.items():
                overlay.tell(peer, NeighborRole.QUERY, link.kind)
            self._asked_at = now
            self.deadline = now + overlay.params.list_timeout
            return
        self._schedule(now)

    def _schedule(self, now: Time) -> None:
        self.deadline = now + self._overlay.jittered(self._overlay.params.stabilize_interval)

    def _drop_links(self, asked_at: Time) -> None:
        """First links to peers that can spare one, then sides of triangles; never below A."""
        answered = [
            (peer, link) for peer, link in self._overlay.active.items() if link.listed >= asked_at
        ]
        # Peers with the most links first: both sides gain. Of their like, the farthest.
        self._overlay.rng.shuffle(answered)
        answered.sort(key=lambda entry: (-entry[1].links, -self._overlay.distance(entry[1])))
        for peer, link in answered:
            if link.random_links > self._overlay.params.random_links:
                self._drop(peer, link)
        for peer, link in answered:
            if self._in_triangle(peer):
                self._drop(peer, link)

    def _drop(self, peer: PeerId, link: Link) -> None:
        """End the link, unless we need it: our size, or our random links, would suffer."""
        overlay = self._overlay
        params = overlay.params
        if peer not in overlay.active or len(overlay.active) <= params.active_size:
            return
        needed = params.random_links if link.kind is LinkKind.RANDOM else params.near_links
        if overlay.active.count(link.kind) > needed:
            overlay.drop_link(peer, DownReason.EVICTED, tell=True, remember=True)

    def _in_triangle(self, peer: PeerId) -> bool:
        """Whether `peer` has a link to another neighbour of ours."""
        active = self._overlay.active
        link = active.get(peer)
        return link is not None and any(other in active for other in link.peers)

    def stop(self) -> None:
        self._asked_at = None
        self.deadline = NEVER
