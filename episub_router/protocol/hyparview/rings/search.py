"""Ring search: finds the peers next to this node on each ring, and asks them for links.

Contacts and neighbours are asked for nodes (GETNODES); one that has rings, too, names the peers
next to the asker that it knows. Each answer leads to a nearer peer, which is asked in turn. While
nothing changes, periods grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.rings.links import is_next_on_a_ring, ring_holders
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import MAX_NODES, GetNodes, LinkKind, Nodes
from episub_router.protocol.types import NEVER, PeerId, Time

REQUEST_TIMEOUT = 5.0
"""Seconds until a request counts as refused. Ours: a dial and a round trip."""

REFUSED_BACKOFF = 60.0
"""Seconds until a peer that refused, or couldn't be reached, is asked again. Ours: it has found
others by then, or is gone."""

FIRST_INTERVAL = 5.0
"""Seconds of the first periods. Ours: as `grow_interval`."""

LONGEST_INTERVAL = 1200.0
"""Seconds that periods grow to while nothing changes. Ours: as contacts are asked in a view that
stays the same; a peer that comes finds its places itself."""

_GROWTH = 4
"""Of the periods. Ours: places are found in the first half minute, and an answer with eight records
costs as much as the control of two or three messages."""

_KEPT = 3
"""Peers remembered on either side of each ring: the neighbour, and two more should it fail."""

_MAX_REFUSED = 64
_MAX_QUERIED = 16


class RingSearch(Procedure):
    """Keeps the links to the nearest peers on each ring; started only where there are rings."""

    __slots__ = (
        "_asked",
        "_candidates",
        "_get_contacts",
        "_interval",
        "_next_search",
        "_queried",
        "_refused",
        "_rounds",
    )

    def __init__(self, state: OverlayState, get_contacts: Callable[[], list[PeerId]]) -> None:
        """`get_contacts` gives the contacts known now."""
        super().__init__(state)
        self._get_contacts = get_contacts
        self._candidates: dict[PeerId, None] = {}
        self._asked: dict[PeerId, Time] = {}
        """Requests in flight, with the time at which each counts as refused."""
        self._refused: dict[PeerId, Time] = {}
        self._queried: dict[PeerId, None] = {}
        """Peers that were asked for nodes."""
        self._interval = FIRST_INTERVAL
        self._next_search = NEVER
        self._rounds = 0

    def start(self, now: Time) -> None:
        self._interval = FIRST_INTERVAL
        self._rounds = 0
        self._schedule(now)

    def has_asked(self, peer: PeerId) -> bool:
        return peer in self._asked

    def fire(self, now: Time) -> None:
        for peer in [peer for peer, until in self._asked.items() if until <= now]:
            self.on_refusal(peer, now)
        if self._next_search <= now:
            self._search(now)
            self._interval = min(_GROWTH * self._interval, LONGEST_INTERVAL)
            self._schedule(now)
        self._set_deadline()

    def _search(self, now: Time) -> None:
        """Ask a neighbour for nodes; and a contact in the first periods and then now and then."""
        state = self._state
        self._rounds += 1
        self._queried.clear()
        holders = list(ring_holders(state))
        # One of those next to us may be gone: two on either side.
        wide = 2 * state.params.ring_links
        for peer in pick_some(state.rng, holders, 1):
            self._query(peer, True, now, wide)
        if self._rounds <= 3 or self._rounds % 4 == 0 or not holders:
            contacts = [peer for peer in self._get_contacts() if peer not in holders]
            for peer in pick_some(state.rng, contacts, 1):
                state.when_connected(peer, partial(self._query, peer), now)
        self.ask_nearest(now)

    def _query(self, peer: PeerId, up: bool, now: Time, count: int = 0) -> None:
        if up and len(self._queried) < _MAX_QUERIED and peer not in self._queried:
            self._queried[peer] = None
            self._state.send(peer, GetNodes(count or self._state.params.ring_links))

    def on_nodes(self, sender: PeerId, nodes: Nodes) -> bool:
        """NODES of a peer that was asked; False if it wasn't asked here."""
        if sender not in self._queried:
            return False
        del self._queried[sender]
        for peer in nodes.peers[:MAX_NODES]:
            self._state.remember(peer, sender)
        if sender not in self._asked:
            self._state.release(sender)
        return True

    def learn(self, peers: Iterable[PeerId], now: Time) -> None:
        """These were named by a peer that was asked."""
        state = self._state
        if state.places is None:
            return
        known = dict.fromkeys(self._candidates)
        for peer in peers:
            if peer != state.me and not state.is_banned(peer, now):
                known[peer] = None
        self._candidates = dict.fromkeys(state.places.nearest(state.me, known, _KEPT))
        self.ask_nearest(now)

    def ask_nearest(self, now: Time) -> None:
        """Ask those that would be next to this node for links."""
        state = self._state
        for peer, at in list(self._refused.items()):
            if now - at >= REFUSED_BACKOFF:
                del self._refused[peer]
        free = [
            peer for peer in self._candidates
            if peer not in self._refused and not state.is_banned(peer, now)
        ]  # fmt: skip
        for peer in ring_holders(state, *free):
            if peer not in state.active and peer not in self._asked:
                self._asked[peer] = NEVER
                state.when_connected(peer, partial(self._request, peer), now)
        self._set_deadline()

    def _request(self, peer: PeerId, up: bool, now: Time) -> None:
        state = self._state
        if peer not in self._asked:
            return
        if not up:
            del self._asked[peer]
            self._candidates.pop(peer, None)
            self._back_off(peer, now)
            self.ask_nearest(now)
            return
        if peer in state.active:
            del self._asked[peer]
            return
        state.ask_for_link(peer, LinkKind.RANDOM, now)
        self._asked[peer] = now + state.with_dial_time(REQUEST_TIMEOUT)
        self._set_deadline()

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """It may know a nearer one: ask it for nodes, and the next in its place."""
        if self._asked.pop(peer, None) is None:
            return
        self._back_off(peer, now)
        self._query(peer, self._state.is_connected(peer), now)
        if peer not in self._queried:
            self._state.release(peer)
        self.ask_nearest(now)

    def _back_off(self, peer: PeerId, now: Time) -> None:
        self._refused[peer] = now
        while len(self._refused) > _MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def on_link(self, peer: PeerId, now: Time) -> None:
        """`peer` is a neighbour now, whichever side asked."""
        self._refused.pop(peer, None)
        if self._asked.pop(peer, None) is not None:
            self._query(peer, True, now)

    def on_links_lost(self, peers: Iterable[PeerId], now: Time) -> None:
        """The links to `peers` have ended: if one was next to us, ask those next to it, and search
        again soon."""
        if self.deadline == NEVER:
            return
        if not any(is_next_on_a_ring(self._state, peer) for peer in peers):
            return
        self._interval = FIRST_INTERVAL
        self.ask_nearest(now)
        self._schedule(now)

    def _schedule(self, now: Time) -> None:
        self._next_search = now + self._state.jittered(self._interval)
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.deadline = min(self._next_search, *self._asked.values(), NEVER)

    def stop(self) -> None:
        super().stop()
        self._candidates.clear()
        self._asked.clear()
        self._refused.clear()
        self._queried.clear()
        self._next_search = NEVER
