"""Ring search: finds the peers next to this node on each ring, and asks them for links.

Contacts and neighbours are asked for nodes (GETNODES); one that has rings, too, names the peers
next to the asker that it knows. Each answer leads to a nearer peer, which is asked in turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol.hyparview.active_view import pick_some
from episub_router.protocol.hyparview.join import JoinProcedure
from episub_router.protocol.hyparview.neighbor import LinkPurpose, Neighbors
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.trickle import Trickle
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.types import PeerId, Time

REFUSED_BACKOFF = 60.0
"""Seconds until a peer that refused, or couldn't be reached, is asked again. Chosen: it has found
others by then, or is gone."""

SEARCH_INTERVAL = 5.0
SEARCH_INTERVAL_MOST = 1280.0
"""Seconds between searches. Chosen: places are found in the first half minute, and an answer costs
as much as the control of a message; as contacts are asked in a view that stays the same."""

_WITH_CONTACTS = 4 * SEARCH_INTERVAL
"""The longest interval in which a contact is asked, too, or when no ring neighbour is known."""

SEARCH_AGAIN = 20.0
"""Seconds until a search after a ring link was lost. Chosen: others have replaced theirs by then.
"""

_ASKED_FOR = 2
"""Peers that one is asked for that a request went to: an answer names the nearest first. Chosen:
the peer between the two, and one more should it be gone."""

_REMEMBERED = 3
"""Peers remembered on either side of each ring: the neighbour, and two more should it fail."""


class RingSearch:
    """Keeps the links to the nearest peers on each ring; idle where there are no rings."""

    __slots__ = ("_candidates", "_join", "_neighbors", "_overlay", "_trickle")

    def __init__(self, overlay: Overlay, join: JoinProcedure, neighbors: Neighbors) -> None:
        self._overlay = overlay
        self._join = join
        self._neighbors = neighbors
        self._candidates: dict[PeerId, None] = {}
        self._trickle = Trickle(overlay.rng, SEARCH_INTERVAL, SEARCH_INTERVAL_MOST)

    def start(self, now: Time) -> None:
        if self._overlay.places is not None:
            self._overlay.set_timer(Timer.RING_SEARCH, self._trickle.start(now))

    def on_timer(self, now: Time) -> None:
        """Ask a ring neighbour for nodes, and in the first rounds a contact."""
        overlay = self._overlay
        found = list(overlay.ring_neighbors())
        asked = pick_some(overlay.rng, found, 1)
        if not found or self._trickle.interval <= _WITH_CONTACTS:
            contacts = [peer for peer in self._join.contacts() if peer not in found]
            asked += pick_some(overlay.rng, contacts, 1)
        for peer in asked:
            self._join.ask(peer, now, overlay.params.ring_links)
        overlay.set_timer(Timer.RING_SEARCH, self._trickle.next(now))
        self.learn(overlay.passive, now)

    def learn(self, peers: Iterable[PeerId], now: Time) -> bool:
        """Take `peers` for candidates, and ask the nearest; False if there is none to ask."""
        overlay = self._overlay
        if overlay.places is None:
            return False
        known = dict.fromkeys(self._candidates)
        for peer in peers:
            if peer != overlay.me and not overlay.is_banned(peer, now):
                known[peer] = None
        self._candidates = dict.fromkeys(overlay.places.nearest(overlay.me, known, _REMEMBERED))
        return self._ask_nearest(now)

    def _ask_nearest(self, now: Time) -> bool:
        """Ask those that would be next to this node for links. False if none is known."""
        overlay, neighbors = self._overlay, self._neighbors
        free = [
            peer
            for peer in self._candidates
            if not neighbors.has_refused(peer, REFUSED_BACKOFF, now)
            and not overlay.is_banned(peer, now)
        ]
        found = [peer for peer in overlay.ring_neighbors(*free) if peer not in overlay.active]
        for peer in found:
            neighbors.ask(peer, LinkPurpose.RING, LinkKind.RANDOM, now)
        return bool(found)

    def on_outcome(self, peer: PeerId, accepted: bool, now: Time) -> bool:
        """The answer to a request. Either way `peer` may know one between it and this node: ask it
        for nodes, and, if it refused, the next in its place. True if its answer is awaited."""
        is_connected = self._overlay.is_connected(peer)
        if is_connected:
            self._join.ask(peer, now, _ASKED_FOR)
        else:
            self._candidates.pop(peer, None)
        if not accepted and not self._ask_nearest(now) and not is_connected:
            self.start(now)
        return is_connected

    def on_link_lost(self, peer: PeerId, now: Time) -> None:
        """The link to `peer` has ended: if it was next to this node, ask the next in its place, and
        search again later, or soon where none is known."""
        self._candidates.pop(peer, None)
        if not self._overlay.is_next_on_a_ring(peer):
            return
        if self.learn(self._overlay.passive, now):
            self._overlay.timers.set_earliest((Timer.RING_SEARCH, None), now + SEARCH_AGAIN)
        else:
            self.start(now)

    def clear(self) -> None:
        self._candidates.clear()
