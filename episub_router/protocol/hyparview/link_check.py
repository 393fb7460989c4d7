"""Upkeep of links: they are two-sided and live (E11, E12, E15), and not too many (E16).

A neighbour that has sent nothing for a while is queried (NEIGHBOR as a list query), and dropped if
it leaves queries unanswered: TCP reports neither one-sided links nor processes that have stopped.
"""

from __future__ import annotations

from collections.abc import Callable

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.overlay import ROUNDS, Overlay, Timer
from episub_router.protocol.hyparview.views import Link
from episub_router.protocol.messages import Disconnect, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.types import PeerId, Time
from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

INTERVAL_MOST_PROBED = 1280.0
"""Seconds between two checks at most where the driver notices what has stopped. Chosen: one-sided
links show with traffic."""

_QUERIES = 3
"""Unanswered queries until the link fails. Chosen: two may be lost."""

_SUSPICIOUS_SILENCE = 1.5
"""Seconds of silence until a neighbour is suspected. Chosen: longer than the wait for GRAFT."""

_ANSWER_TIMEOUT = 4.0
"""Seconds that a queried neighbour has to send anything. Chosen: longer than a busy machine blocks
an event loop."""

_NOTIFIED = Rate(1, 1)
"""DISCONNECTs a second to a peer that wrongly behaves as a neighbour."""

_MAX_NOTIFIED = 64
"""Peers remembered that were sent one."""

LIST_TIMEOUT = 1.0
"""Seconds that neighbours have to answer. Chosen: a round trip of 300 ms, with room."""


class LinkCheck:
    """Queries silent neighbours, and notifies peers that wrongly behave as neighbours."""

    __slots__ = ("_notified", "_on_failed", "_overlay")

    def __init__(self, overlay: Overlay, on_failed: Callable[[PeerId, Time], None]) -> None:
        """`on_failed` is called with a neighbour whose link has just failed."""
        self._overlay = overlay
        self._on_failed = on_failed
        self._notified: TokenBuckets[PeerId] = TokenBuckets(_NOTIFIED, _MAX_NOTIFIED)

    def on_timer(self, now: Time) -> None:
        """Query neighbours that have been silent for half of the interval."""
        overlay = self._overlay
        rounds = overlay.rounds[Timer.LINK_CHECK]
        for peer, link in overlay.active.items():
            if now - link.last_activity >= rounds.interval / 2:
                self.doubt(peer, _QUERIES, now)
        probed = all(overlay.is_probed(peer) for peer in overlay.active)
        rounds.most = INTERVAL_MOST_PROBED if probed else ROUNDS[Timer.LINK_CHECK][1]
        overlay.next_round(Timer.LINK_CHECK, now)

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
            # What was silent may not be the only one.
            overlay.start_rounds(Timer.LINK_CHECK, now)
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
        elif not overlay.is_full:
            overlay.accept(sender, query.kind, now, query)
        else:
            overlay.reject(sender, DropReason.NOT_NEIGHBOR)

    def on_list(self, sender: PeerId, answer: Neighbor, now: Time) -> None:
        """LIST: the link stands, and spare passive room is filled (E11)."""
        overlay = self._overlay
        link = overlay.active.get(sender)
        if link is None:
            overlay.drop(sender, DropReason.UNSOLICITED)
            return
        link.update(answer, now)
        for peer in () if answer.numbers_only else link.peers:
            if len(overlay.passive) < overlay.passive.size:
                overlay.remember(peer, sender)

    def on_non_neighbor(self, sender: PeerId, now: Time) -> None:
        """A peer sent us what only neighbours send: DISCONNECT, now and then (E12)."""
        if self._notified.take(sender, now):
            self._overlay.send(sender, Disconnect())


class Stabilization:
    """An active view that is too large, as joins make it on purpose (E13), shrinks to A (E16).

    In each round a node ends random links that rings no longer need, then asks the neighbours that
    it could spare for lists, and ends links that neither side needs.
    """

    __slots__ = ("_asked_at", "_overlay")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._asked_at: Time | None = None
        """When neighbours were asked for lists, until they have had their time."""

    def on_change(self, now: Time) -> None:
        if self._overlay.is_too_large and not self._overlay.is_set(Timer.STABILIZE):
            self._asked_at = None
            self._overlay.start_rounds(Timer.STABILIZE, now)

    def on_timer(self, now: Time) -> None:
        """The next half of a round, while there are too many links."""
        overlay = self._overlay
        if self._asked_at is not None:
            self._drop_spare(self._asked_at)
            self._asked_at = None
            if overlay.is_too_large:
                overlay.next_round(Timer.STABILIZE, now)
            return
        if overlay.params.ring_links == overlay.params.random_links:
            # The other ends have found their own, too.
            for peer, link in list(overlay.active.items()):
                if link.kind is LinkKind.RANDOM:
                    self._drop(peer, link)
        if overlay.is_too_large:
            self._asked_at = now
            kept = overlay.kept_links()
            for peer, link in overlay.active.items():
                if peer not in kept:
                    overlay.query(peer, link, numbers_only=False)
            overlay.set_timer(Timer.STABILIZE, now + LIST_TIMEOUT)

    def _drop_spare(self, asked_at: Time) -> None:
        """First links to peers that have more than C_rand random ones, then sides of triangles."""
        overlay = self._overlay
        links = overlay.active.items()
        answered = [(peer, link) for peer, link in links if link.answered_at >= asked_at]
        # Peers with the most links first: both sides gain. Among those, the farthest.
        overlay.rng.shuffle(answered)
        answered.sort(key=_by_spare_links)
        for peer, link in answered:
            if link.random_links > overlay.params.random_links:
                self._drop(peer, link)
        for peer, link in answered:
            if any(other in overlay.active for other in link.peers):
                self._drop(peer, link)

    def _drop(self, peer: PeerId, link: Link) -> None:
        """End the link, unless this node needs it for its size, its rings or its kinds."""
        overlay = self._overlay
        if peer not in overlay.active or not overlay.is_too_large or peer in overlay.kept_links():
            return
        near = overlay.active.count(LinkKind.NEAR)
        if link.kind is LinkKind.RANDOM or near > overlay.params.near_links:
            overlay.evict(peer)


def _by_spare_links(entry: tuple[PeerId, Link]) -> tuple[int, float]:
    return -entry[1].links, -entry[1].distance
