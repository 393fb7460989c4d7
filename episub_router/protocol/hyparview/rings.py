"""Ring search: finds the peers next to this node on each ring, and asks them for links.

Contacts and ring neighbours are asked for nodes (GETNODES), and name the peers next to the asker
that they know. Each answer leads to a nearer peer, which is asked in turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol.hyparview.active_view import pick_some
from episub_router.protocol.hyparview.join import JoinProcedure
from episub_router.protocol.hyparview.neighbor import LinkPurpose, Neighbors
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.types import PeerId, Time
from episub_router.util.trickle import Trickle

REFUSED_BACKOFF = 60.0
"""Seconds until a peer that refused is asked again. Chosen: it has found others, or is gone."""

SEARCH_INTERVAL = 5.0
SEARCH_INTERVAL_MOST = 1280.0
"""Seconds between searches. Chosen: places are found in the first half minute."""

_WITH_CONTACTS = 4 * SEARCH_INTERVAL
"""The longest interval in which a contact is asked, too."""

SEARCH_AGAIN = 20.0
"""Seconds until a search after a ring link is lost. Chosen: others have replaced theirs by then."""

_ASKED_FOR = 2
"""Nodes asked of a peer that answered a request. Chosen: the one between, and one as a spare."""

_REMEMBERED = 3
"""Peers remembered on either side of each ring. Chosen: the neighbour, and two spares."""


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
            contacts = [peer for peer in self._join.contacts if peer not in found]
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
        allowed = [p for p in peers if p != overlay.me and not overlay.is_banned(p, now)]
        known = dict.fromkeys([*self._candidates, *allowed])
        self._candidates = dict.fromkeys(overlay.places.nearest(overlay.me, known, _REMEMBERED))
        return self._ask_nearest(now)

    def _ask_nearest(self, now: Time) -> bool:
        """Ask those that would be next to this node for links. False if none is known."""
        overlay, neighbors = self._overlay, self._neighbors
        willing = [
            p for p in self._candidates if not neighbors.has_refused(p, REFUSED_BACKOFF, now)
        ]
        free = [peer for peer in willing if not overlay.is_banned(peer, now)]
        found = [peer for peer in overlay.ring_neighbors(*free) if peer not in overlay.active]
        for peer in found:
            neighbors.ask(peer, LinkPurpose.RING, LinkKind.RANDOM, now)
        return bool(found)

    def on_outcome(self, peer: PeerId, accepted: bool, now: Time) -> bool:
        """A request has ended: `peer` may know one between it and this node, so ask it for nodes,
        and if it refused, the next in its place for a link. True if NODES are awaited."""
        is_connected = self._overlay.is_connected(peer)
        if is_connected:
            self._join.ask(peer, now, _ASKED_FOR)
        else:
            self._candidates.pop(peer, None)
        if not accepted and not self._ask_nearest(now) and not is_connected:
            self.start(now)
        return is_connected

    def on_link_lost(self, peer: PeerId, now: Time) -> None:
        """If `peer` was next to this node, ask the next in its place, and search again later, or
        soon where none is known."""
        self._candidates.pop(peer, None)
        if not self._overlay.is_next_on_a_ring(peer):
            return
        if self.learn(self._overlay.passive, now):
            self._overlay.timers.set_earliest((Timer.RING_SEARCH, None), now + SEARCH_AGAIN)
        else:
            self.start(now)

    def clear(self) -> None:
        self._candidates.clear()
