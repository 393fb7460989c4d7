"""Link check: active links are two-sided and live (E11, E12, E15).

A neighbour that has sent nothing for a while is queried (NEIGHBOR as a list query), and dropped if
it leaves queries unanswered: TCP reports neither one-sided links nor processes that have stopped.
"""

from __future__ import annotations

from collections.abc import Callable

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import Disconnect, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time
from episub_router.util.bounded import put_last
from episub_router.util.trickle import Trickle

INTERVAL = 10.0
INTERVAL_MOST = 20.0
"""Seconds between two checks. Chosen: what has stopped is noticed within 40 s."""

INTERVAL_MOST_PROBED = 1280.0
"""The same where the driver notices what has stopped. Chosen: one-sided links show with traffic."""

_QUERIES = 3
"""Unanswered queries until the link fails. Chosen: two may be lost."""

_SUSPICIOUS_SILENCE = 1.5
"""Seconds of silence until a neighbour is suspected. Chosen: longer than the wait for GRAFT."""

_ANSWER_TIMEOUT = 4.0
"""Seconds that a queried neighbour has to send anything. Chosen: longer than a busy machine blocks
an event loop."""

_NOTIFY_AGAIN = 1.0
"""Seconds until a peer that isn't a neighbour is sent DISCONNECT again."""

_MAX_NOTIFIED = 64
"""Peers remembered that were sent DISCONNECT for it."""


class LinkCheck:
    """Queries silent neighbours, and notifies peers that wrongly behave as neighbours."""

    __slots__ = ("_notified", "_on_failed", "_overlay", "_trickle")

    def __init__(self, overlay: Overlay, on_failed: Callable[[PeerId, Time], None]) -> None:
        """`on_failed` is called with a neighbour whose link has just failed."""
        self._overlay = overlay
        self._on_failed = on_failed
        self._notified: dict[PeerId, Time] = {}
        self._trickle = Trickle(overlay.rng, INTERVAL, INTERVAL_MOST)

    def start(self, now: Time) -> None:
        self._overlay.set_timer(Timer.LINK_CHECK, self._trickle.start(now))

    def on_timer(self, now: Time) -> None:
        """Query neighbours that have been silent for half of the interval."""
        overlay = self._overlay
        probed = True
        for peer, link in overlay.active.items():
            probed = probed and overlay.is_probed(peer)
            if now - link.last_activity >= self._trickle.interval / 2:
                self.doubt(peer, _QUERIES, now)
        self._trickle.most = INTERVAL_MOST_PROBED if probed else INTERVAL_MOST
        overlay.set_timer(Timer.LINK_CHECK, self._trickle.next(now))

    def doubt(self, peer: PeerId, queries: int, now: Time) -> None:
        """`peer` should have sent something: once it has been silent for a while, query it so many
        times, at most, before its link fails (E15)."""
        overlay = self._overlay
        link = overlay.active.get(peer)
        if link is None:
            return
        if overlay.is_set(Timer.ANSWER, peer):
            link.queries_left = min(link.queries_left, queries)
            return
        link.doubted_at, link.queries_left = link.last_activity, queries
        silent_at = link.last_activity + _SUSPICIOUS_SILENCE
        if now < silent_at:
            overlay.set_timer(Timer.ANSWER, silent_at, peer)
        else:
            self.on_silence(peer, now)

    def on_silence(self, peer: PeerId, now: Time) -> None:
        """A doubted neighbour has had its time: query it again, or end the link."""
        overlay = self._overlay
        link = overlay.active.get(peer)
        if link is None or link.last_activity > link.doubted_at:
            return
        if link.queries_left:
            link.queries_left -= 1
            overlay.query(peer, link)
            overlay.set_timer(Timer.ANSWER, now + _ANSWER_TIMEOUT, peer)
        else:
            overlay.drop_link(peer, DownReason.FAILED, notify=True, remember=False)
            self.start(now)  # What was silent may not be the only one.
            self._on_failed(peer, now)

    def on_query(self, sender: PeerId, query: Neighbor, now: Time) -> None:
        """QUERY: answer a neighbour with our list (E11). Another that behaves as one becomes one if
        there is room, else it gets DISCONNECT (E12)."""
        overlay = self._overlay
        link = overlay.active.get(sender)
        if link is not None:
            link.update(query, now)
            brief = query.numbers_only
            peers = [] if brief else [peer for peer in overlay.active if peer != sender]
            overlay.send_neighbor(sender, NeighborRole.LIST, link.kind, *peers, numbers_only=brief)
        elif len(overlay.active) < overlay.params.active_size:
            overlay.accept(sender, query.kind, now, query)
        else:
            overlay.drop(sender, DropReason.NOT_NEIGHBOR)
            overlay.send(sender, Disconnect())

    def on_list(self, sender: PeerId, answer: Neighbor, now: Time) -> None:
        """LIST: the link stands, and spare passive room is filled (E11)."""
        overlay = self._overlay
        link = overlay.active.get(sender)
        if link is None:
            overlay.drop(sender, DropReason.UNSOLICITED)
            return
        link.update(answer, now)
        if not answer.numbers_only:
            for peer in link.peers:
                if len(overlay.passive) < overlay.passive.size:
                    overlay.remember(peer, sender)

    def on_non_neighbor(self, sender: PeerId, now: Time) -> None:
        """A peer sent us what only neighbours send: DISCONNECT, at most once a second (E12)."""
        if now - self._notified.get(sender, -NEVER) >= _NOTIFY_AGAIN:
            put_last(self._notified, sender, now, _MAX_NOTIFIED)
            self._overlay.send(sender, Disconnect())

    def clear(self) -> None:
        self._notified.clear()
