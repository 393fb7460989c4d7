"""Stabilisation: an active view that is too large shrinks to its size (E16).

Joins oversubscribe views on purpose (E13). A node with too many links gives up those that rings no
longer need, then asks its neighbours how many links they have, then for their lists, and ends links
that neither side needs. A view that is too small is left to `neighbor` (E17).
"""

from __future__ import annotations

from episub_router.protocol.hyparview.active_view import Link
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.trickle import Trickle
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.types import PeerId, Time

STABILIZE_INTERVAL = 10.0
STABILIZE_INTERVAL_MOST = 160.0
"""Seconds between rounds while a view is too large. Chosen: a join storm is over by then, and a
view too large costs only bandwidth."""

LIST_TIMEOUT = 1.0
"""Seconds that neighbours have to answer. Chosen: a round trip of 300 ms, with room."""


class Stabilization:
    """Rounds of up to three steps, while there are too many links."""

    __slots__ = ("_asked_at", "_overlay", "_step", "_trickle")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._trickle = Trickle(overlay.rng, STABILIZE_INTERVAL, STABILIZE_INTERVAL_MOST)
        self._step = 0
        """How often the neighbours were asked in this round: for numbers, then for lists."""
        self._asked_at: Time = 0.0

    @property
    def _is_too_large(self) -> bool:
        return len(self._overlay.active) > self._overlay.params.active_size

    def on_change(self, now: Time) -> None:
        """Links may have been added."""
        if self._is_too_large and not self._overlay.is_set(Timer.STABILIZE):
            self._step = 0
            self._overlay.set_timer(Timer.STABILIZE, self._trickle.start(now))

    def on_timer(self, now: Time) -> None:
        """The next step; or a new round, if there still are too many links after the last."""
        overlay = self._overlay
        if self._step == 0:
            self._drop_superseded()
        else:
            self._drop_spare(in_triangles=self._step == 2)
        if not self._is_too_large:
            return
        self._step = (self._step + 1) % 3
        if self._step == 0:
            overlay.set_timer(Timer.STABILIZE, self._trickle.next(now))
            return
        self._asked_at = now
        for peer, link in overlay.active.items():
            overlay.query(peer, link, numbers_only=self._step == 1)
        overlay.set_timer(Timer.STABILIZE, now + LIST_TIMEOUT)

    def _drop_superseded(self) -> None:
        """Random links whose place on a ring others have: the other end has found its own."""
        overlay = self._overlay
        if overlay.params.ring_links == overlay.params.random_links:
            for peer, link in list(overlay.active.items()):
                if link.kind is LinkKind.RANDOM:
                    self._drop(peer, link)

    def _drop_spare(self, *, in_triangles: bool) -> None:
        """First links to peers that have more than C_rand random ones, then sides of triangles."""
        overlay = self._overlay
        answered = [
            (peer, link)
            for peer, link in overlay.active.items()
            if link.answered_at >= self._asked_at
        ]
        # Peers with the most links first: both sides gain. Among those, the farthest.
        overlay.rng.shuffle(answered)
        answered.sort(key=_by_spare_links)
        for peer, link in answered:
            if link.random_links > overlay.params.random_links:
                self._drop(peer, link)
        for peer, link in answered if in_triangles else ():
            if any(other in overlay.active for other in link.peers):
                self._drop(peer, link)

    def _drop(self, peer: PeerId, link: Link) -> None:
        """End the link, unless this node needs it for its size, its rings or its kinds."""
        overlay = self._overlay
        params = overlay.params
        if peer not in overlay.active or not self._is_too_large or peer in overlay.kept_links():
            return
        if link.kind is LinkKind.RANDOM:
            spare = overlay.has_spare_random_link
        else:
            spare = overlay.active.count(LinkKind.NEAR) > params.near_links
        if spare:
            overlay.evict(peer)


def _by_spare_links(entry: tuple[PeerId, Link]) -> tuple[int, float]:
    return -entry[1].links, -entry[1].distance
