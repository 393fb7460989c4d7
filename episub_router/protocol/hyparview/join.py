"""Join: a new node asks contacts for nodes, and sends JOINs that walk until a member accepts
(E02-E04, E08). With rings, the peers next to it are asked first (`rings`)."""

from __future__ import annotations

from functools import partial

from episub_router.protocol.hyparview.active_view import pick_some
from episub_router.protocol.hyparview.neighbor import LinkPurpose, Neighbors
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import MAX_NODES, GetNodes, Join, LinkKind, Nodes
from episub_router.protocol.types import NEVER, Group, PeerId, Time
from episub_router.util.bounded import put_last
from episub_router.util.trickle import Trickle

NODES_TIMEOUT = 3.0
"""Seconds that contacts have to answer GETNODES. Chosen: one round trip and a dial, with room."""

JOIN_TIMEOUT = 5.0
"""Seconds that JOINs have to bring links. Measured: six hops and a dial take 1 s, and over
2 s where 20 hosts share a core."""

JOIN_LIFETIME = 30.0
"""Seconds in which a JOIN can be answered. Chosen: several walks of six hops with a dial."""

RINGS_FIRST = 3.0
"""Seconds for peers next on rings before JOINs are sent. Chosen: a dial and a round trip."""

CONTACTS_ASKED = 3
"""Contacts asked for nodes at once. Chosen: one alone could eclipse us."""

MAX_CONTACTS = 64
"""Contacts remembered. Chosen: as many as NODES from four peers name."""

MAX_ASKED = 32
"""Peers asked for nodes that have yet to answer; the oldest is forgotten first."""

RECONNECT_INTERVAL = 15.0
"""Seconds between dials to lost neighbours. Chosen: a healed partition merges within a minute."""

CONTACT_INTERVAL = 300.0
CONTACT_INTERVAL_MOST = 1200.0
"""Seconds between requests to a contact. Chosen: one for 10,000 nodes gets 33 a second at most."""

_TRIED_AT_ONCE = 2
"""Lost neighbours dialled at a time."""

_MAX_TRIES = 20
"""Dials to one lost neighbour. Chosen: ten minutes or so."""

_MAX_LOST = 16
"""Lost neighbours remembered. Chosen: more than the hard bound of the active view."""


class JoinProcedure:
    """The joining side: contacts, GETNODES and its answers, JOINs until C_rand links stand."""

    __slots__ = (
        "_asked", "_awaited", "_overlay", "_tried", "_ttl", "_walking",
        "contacts", "in_progress", "open_until",
    )  # fmt: skip

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self.contacts: dict[PeerId, None] = {}
        self._asked: dict[PeerId, Time] = {}
        """When peers were asked for nodes, by whichever procedure."""
        self._awaited: dict[PeerId, None] = {}
        """Contacts of this join that have yet to answer."""
        self.in_progress = False
        self._walking = False
        """Whether contacts are no longer waited for."""
        self._tried: dict[PeerId, None] = {}
        """Nodes at which JOINs started. Bound: C_rand for each TTL."""
        self._ttl = 0
        self.open_until: Time = 0.0
        """Until when a JOIN of this node can be answered."""

    def add_contacts(self, contacts: tuple[PeerId, ...]) -> None:
        """Remember `contacts`; beyond `MAX_CONTACTS`, the oldest half, which leads back after a
        partition, and the newest."""
        for contact in contacts:
            if contact != self._overlay.me:
                self.contacts.setdefault(contact)
        known = list(self.contacts)
        if len(known) > MAX_CONTACTS:
            half = MAX_CONTACTS // 2
            self.contacts = dict.fromkeys(known[:half] + known[-half:])

    def ask(self, peer: PeerId, now: Time, count: int = 0) -> None:
        """Ask `peer` for nodes, at most `count` unless 0, dialling it if need be (E03)."""
        self._overlay.when_connected(peer, partial(self._ask, peer, count), now)

    def _ask(self, peer: PeerId, count: int, up: bool, now: Time) -> None:
        if not up:
            self._stop_waiting_for(peer, now)
        elif now - self._asked.get(peer, -NEVER) >= NODES_TIMEOUT:
            put_last(self._asked, peer, now, MAX_ASKED)
            self._overlay.send(peer, GetNodes(count))

    def on_nodes(self, sender: PeerId, nodes: Nodes, now: Time) -> bool:
        """NODES: the peers go into the passive view, and JOINs can start once all contacts have
        answered (E03, E04). False if `sender` wasn't asked."""
        if self._asked.pop(sender, None) is None:
            return False
        overlay = self._overlay
        overlay.remember(sender)
        for peer in nodes.peers[:MAX_NODES]:
            overlay.remember(peer, sender)
        if sender in self._awaited:
            self._ttl = max(0, min(self._ttl, nodes.ttl))
            self._stop_waiting_for(sender, now)
        return True

    def _stop_waiting_for(self, contact: PeerId, now: Time) -> None:
        if contact not in self._awaited:
            return
        del self._awaited[contact]
        if self._awaited or self._walking:
            return
        if self._overlay.places is None:
            self._walk(now)
        else:
            self._walking = True
            self._wait(now, RINGS_FIRST)

    def start(self, now: Time) -> None:
        """Ask some random contacts for nodes (E03); without contacts, wait for some."""
        if self.in_progress or not self.contacts:
            return
        self.in_progress = True
        self._walking = False
        self._tried.clear()
        self._ttl = self._overlay.params.join_ttl
        self._wait(now, NODES_TIMEOUT)
        contacts = self._disjoint_contacts()
        self._awaited = dict.fromkeys(contacts)
        for contact in contacts:
            self.ask(contact, now)

    def _disjoint_contacts(self) -> list[PeerId]:
        """Random contacts of as many groups as possible: no one chooses what we learn (E02)."""
        overlay = self._overlay
        first: dict[Group, PeerId] = {}
        others: list[PeerId] = []
        for contact in pick_some(overlay.rng, list(self.contacts), MAX_CONTACTS):
            group = overlay.group_of(contact)
            if first.setdefault(contact if group is None else group, contact) != contact:
                others.append(contact)
        return [*first.values(), *others][:CONTACTS_ASKED]

    def _walk(self, now: Time) -> None:
        """Send the JOINs still needed to random nodes of the view (E04), to others than before
        while there are any (E08): first to connected ones, as a dial costs more than the rest."""
        overlay = self._overlay
        needed = overlay.params.random_links - len(overlay.active)
        view = overlay.passive.sample(overlay.rng, len(overlay.passive))
        fresh = [peer for peer in view if peer not in self._tried]
        connected = [peer for peer in fresh if overlay.is_connected(peer)]
        others = fresh + [peer for peer in view if peer in self._tried]
        starts = (connected * needed or others)[: max(0, needed)]
        if not starts:
            self._finish()
            return
        self._walking = True
        self._wait(now, JOIN_TIMEOUT)
        for start in starts:
            self._tried[start] = None
            overlay.when_connected(start, partial(self._send_join, start, self._ttl), now)

    def _send_join(self, start: PeerId, ttl: int, up: bool, now: Time) -> None:
        if up and self.in_progress:
            self.open_until = now + JOIN_LIFETIME
            self._overlay.send(start, Join(self._overlay.me, ttl))

    def _wait(self, now: Time, timeout: float) -> None:
        wait = self._overlay.jittered(self._overlay.with_dial_time(timeout))
        self._overlay.set_timer(Timer.JOIN, now + wait)

    def on_timer(self, now: Time) -> None:
        """No contact has answered, or links are still missing: go on with a lower TTL (E08)."""
        if not self._overlay.is_in_need or (self._tried and self._ttl == 0):
            self._finish()
            return
        if self._tried:
            self._ttl -= 1
        self._walk(now)

    def on_link(self) -> None:
        """A link was added: the join ends with the last one that it was to bring."""
        if self._walking and not self._overlay.is_in_need:
            self._finish()

    def _finish(self) -> None:
        self.in_progress = self._walking = False
        self._tried.clear()
        self._awaited.clear()
        self._overlay.cancel_timer(Timer.JOIN)

    def clear(self) -> None:
        self._finish()
        self._asked.clear()
        self.contacts.clear()
        self.open_until = 0.0


class Reconnection:
    """Lost neighbours and contacts are tried again, so that partitions merge (E02).

    Each half of a partition replaces the neighbours that it lost, and no view of it names a peer of
    the other. So lost ones are dialled for a while and sent a JOIN with TTL 0, and a contact is
    asked for nodes now and then, sooner where links are missing and no other peer is known.
    """

    __slots__ = ("_join", "_lost", "_neighbors", "_overlay", "_trickle")

    def __init__(self, overlay: Overlay, join: JoinProcedure, neighbors: Neighbors) -> None:
        self._overlay = overlay
        self._join = join
        self._neighbors = neighbors
        self._lost: dict[PeerId, int] = {}
        """How often each lost neighbour was tried."""
        self._trickle = Trickle(overlay.rng, CONTACT_INTERVAL, CONTACT_INTERVAL_MOST)

    def start(self, now: Time) -> None:
        self._overlay.set_timer(Timer.RECONNECT, now + self._overlay.jittered(RECONNECT_INTERVAL))
        self._overlay.set_timer(Timer.CONTACT, self._trickle.start(now))

    def on_link_failed(self, peer: PeerId, now: Time) -> None:
        put_last(self._lost, peer, 0, _MAX_LOST)
        if self._trickle.interval > self._trickle.least:
            self._overlay.set_timer(Timer.CONTACT, self._trickle.start(now))

    def forget(self, peer: PeerId) -> None:
        """`peer` is a neighbour again, or has left the overlay: don't try it."""
        self._lost.pop(peer, None)

    def on_timer(self, now: Time) -> None:
        overlay = self._overlay
        overlay.set_timer(Timer.RECONNECT, now + overlay.jittered(RECONNECT_INTERVAL))
        for peer in pick_some(overlay.rng, list(self._lost), _TRIED_AT_ONCE):
            self._lost[peer] += 1
            if self._lost[peer] >= _MAX_TRIES:
                del self._lost[peer]
            self._neighbors.ask(peer, LinkPurpose.RECONNECT, LinkKind.RANDOM, now)
        if overlay.is_in_need and not overlay.passive:
            self._ask_contact(now)

    def on_contact_timer(self, now: Time) -> None:
        self._overlay.set_timer(Timer.CONTACT, self._trickle.next(now))
        self._ask_contact(now)

    def _ask_contact(self, now: Time) -> None:
        overlay = self._overlay
        distant = [peer for peer in self._join.contacts if peer not in overlay.active]
        for peer in pick_some(overlay.rng, distant, 1):
            self._join.ask(peer, now)

    def clear(self) -> None:
        self._lost.clear()
