"""Search: a node finds the peers next to it on each ring, and goes back to lost ones (E02, E03).

Contacts and ring neighbours are asked for nodes (GETNODES), and name the peers next to the asker
that they know. Each answer leads to a nearer peer, which is asked in turn. Lost neighbours are sent
a JOIN, as no view of the other half of a partition names them.
"""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol.hyparview.join import JoinProcedure
from episub_router.protocol.hyparview.neighbor import Neighbors
from episub_router.protocol.hyparview.overlay import SHARE, Overlay, Timer
from episub_router.protocol.hyparview.views import pick_some
from episub_router.protocol.messages import GetNodes, LinkKind, Nodes
from episub_router.protocol.types import PeerId, Time
from episub_router.util.bounded import put_last

_WITH_CONTACTS = 160.0
"""Seconds between rounds up to which a contact is asked, too. Measured: 20 leave more cut off."""

SEARCH_AGAIN = 20.0
"""Seconds until a search after a link is lost. Chosen: others have replaced theirs by then."""

_ASKED_FOR = 2
"""Nodes asked of a peer that answered a request. Chosen: the one between, and one as a spare."""

_REMEMBERED = 3
"""Peers remembered on either side of each ring. Chosen: the neighbour, and two spares."""

_TRIED_AT_ONCE = 2
"""Lost neighbours dialled at a time."""

_MAX_TRIES = 20
"""Dials to one lost neighbour. Chosen: ten minutes or so."""

_LOST = 16
"""Lost neighbours remembered. Chosen: more than the hard bound of the active view."""

NODES_GIVEN = 8
"""Peers in a NODES at most. Chosen: three contacts name more than a joining node needs."""

_SAMPLED = 2
"""Random ones of those, unless a number was asked for: ids next to a given node can be made."""

_NAMED_EACH = 2
"""Peers named on either side of each ring. Chosen: the next one, and one should that fail."""

MAX_RECENT_JOINERS = 1024
"""Peers remembered that asked for nodes. Chosen: some 100 KB."""

RECENT = 3600.0
"""Seconds for which such a peer is named. Chosen: at rest a contact is asked each 30 minutes."""


class Contact:
    """Answers GETNODES (E03): each node is a contact of others."""

    __slots__ = ("_overlay", "recent_joiners")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self.recent_joiners: dict[PeerId, Time] = {}
        """When peers asked for nodes, oldest first."""

    def on_get_nodes(self, sender: PeerId, asked: GetNodes, now: Time) -> None:
        """GETNODES: name peers next to the sender on rings, and a sample of both views (E03)."""
        overlay = self._overlay
        count = min(asked.count or NODES_GIVEN, NODES_GIVEN)
        known = [*overlay.active, *overlay.passive, *self._recent(now)]
        peers = overlay.places.nearest(sender, dict.fromkeys(known), _NAMED_EACH)
        peers = peers[: count if asked.count else count - _SAMPLED]
        self._note_joiner(sender, now)
        peers += overlay.active.sample(overlay.rng, (count - len(peers)) // 2, sender, *peers)
        peers += overlay.passive.sample(overlay.rng, count - len(peers), sender, *peers)
        overlay.send(sender, Nodes(tuple(peers), overlay.params.join_ttl))

    def _recent(self, now: Time) -> list[PeerId]:
        joiners = self.recent_joiners
        while joiners and now - next(iter(joiners.values())) >= RECENT:
            del joiners[next(iter(joiners))]
        return [peer for peer in joiners if not self._overlay.is_banned(peer, now)]

    def _note_joiner(self, peer: PeerId, now: Time) -> None:
        """Remember `peer` in place of the oldest, of its own group where that has its share."""
        joiners, group_of = self.recent_joiners, self._overlay.group_of
        joiners.pop(peer, None)
        if len(joiners) >= MAX_RECENT_JOINERS:
            group = group_of(peer)
            like = [other for other in joiners if group is not None and group_of(other) == group]
            has_share = len(like) >= SHARE * MAX_RECENT_JOINERS
            del joiners[like[0] if has_share else next(iter(joiners))]
        joiners[peer] = now


class Search:
    """Keeps the links to the nearest peers on each ring, and both halves of a partition in mind."""

    __slots__ = ("_candidates", "_join", "_lost", "_neighbors", "_overlay")

    def __init__(self, overlay: Overlay, join: JoinProcedure, neighbors: Neighbors) -> None:
        self._overlay = overlay
        self._join = join
        self._neighbors = neighbors
        self._candidates: dict[PeerId, None] = {}
        """The nearest known on each ring, neighbours or not."""
        self._lost: dict[PeerId, int] = {}
        """How often each neighbour whose link has failed was tried."""

    def on_timer(self, now: Time) -> None:
        """Ask a ring neighbour for nodes; a contact, too, in the first rounds and the rarest."""
        overlay = self._overlay
        if overlay.is_in_need and not overlay.passive:
            overlay.start_rounds(Timer.SEARCH, now)
        else:
            overlay.next_round(Timer.SEARCH, now)
        found = list(overlay.ring_neighbors())
        contacts = [peer for peer in self._join.contacts if peer not in found]
        rounds = overlay.rounds[Timer.SEARCH]
        if found and _WITH_CONTACTS < rounds.interval < rounds.most:
            contacts = []
        for known in (found, contacts):
            for peer in pick_some(overlay.rng, known, 1):
                self._join.ask(peer, now, overlay.params.ring_links)
        self.learn(overlay.passive, now)

    def on_lost_timer(self, now: Time) -> None:
        """Ask lost neighbours for a link."""
        for peer in pick_some(self._overlay.rng, list(self._lost), _TRIED_AT_ONCE):
            self._lost[peer] += 1
            if self._lost[peer] >= _MAX_TRIES:
                del self._lost[peer]
            self._neighbors.ask(peer, None, now)
        if self._lost:
            self._overlay.next_round(Timer.RECONNECT, now)

    def learn(self, peers: Iterable[PeerId], now: Time) -> bool:
        """Take `peers` for candidates, and ask the nearest; False if there is none to ask."""
        overlay = self._overlay
        known = dict.fromkeys([*self._candidates, *peers])
        self._candidates = dict.fromkeys(overlay.places.nearest(overlay.me, known, _REMEMBERED))
        return self._ask_nearest(now)

    def _ask_nearest(self, now: Time) -> bool:
        """Ask those that would be next to this node for links. False if none is known."""
        overlay, neighbors = self._overlay, self._neighbors
        free = [peer for peer in self._candidates if not overlay.is_banned(peer, now)]
        willing = [peer for peer in free if not neighbors.has_refused(peer, now)]
        found = [peer for peer in overlay.ring_neighbors(*willing) if peer not in overlay.active]
        for peer in found:
            neighbors.ask(peer, LinkKind.RANDOM, now)
        return bool(found)

    def on_link(self, peer: PeerId, now: Time) -> None:
        """`peer`, which was asked, is a neighbour: on a ring, it may know one that is between."""
        if peer in self._overlay.ring_neighbors():
            self._join.ask(peer, now, _ASKED_FOR)

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """`peer` has refused a place on a ring, or isn't there: the next is asked in its place,
        and `peer` for nodes, as it may know a nearer one."""
        overlay = self._overlay
        is_connected = overlay.is_connected(peer)
        if not is_connected:
            self._candidates.pop(peer, None)
        if overlay.is_next_on_a_ring(peer):
            if is_connected:
                self._join.ask(peer, now, _ASKED_FOR)
            if not self._ask_nearest(now) and not is_connected:
                overlay.start_rounds(Timer.SEARCH, now)

    def on_link_failed(self, peer: PeerId, now: Time) -> None:
        put_last(self._lost, peer, 0, _LOST)
        self._overlay.hasten_rounds(Timer.RECONNECT, now)

    def on_link_lost(self, peer: PeerId, now: Time) -> None:
        """If `peer` was next to this node, ask the next in its place, and search again later, or
        soon where none is known."""
        overlay = self._overlay
        self._candidates.pop(peer, None)
        if not overlay.is_next_on_a_ring(peer):
            return
        if self.learn(overlay.passive, now):
            overlay.timers.set_earliest((Timer.SEARCH, None), now + SEARCH_AGAIN)
        else:
            overlay.start_rounds(Timer.SEARCH, now)

    def forget(self, peer: PeerId) -> None:
        """`peer` is a neighbour again, or has left the overlay: it isn't lost."""
        self._lost.pop(peer, None)
