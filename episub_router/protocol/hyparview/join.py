"""Join: a new node asks contacts for nodes, and sends JOINs that walk until a member accepts
(E02-E04, E08). What members do is in `join_handler`.

With rings, what the contacts name leads to the peers next to the new node, which give it its
random links (`rings`): JOINs are sent for those that are missing some seconds later.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.hyparview.active_view import pick_some
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import MAX_NODES, GetNodes, Join, Nodes
from episub_router.protocol.types import NEVER, Group, PeerId, Time
from episub_router.util.bounded import put_last

NODES_TIMEOUT = 3.0
"""Seconds that contacts have to answer GETNODES. Chosen: one round trip and a dial, with room."""

JOIN_TIMEOUT = 5.0
"""Seconds that JOINs have to bring links. Measured: six hops and a dial take 1 s between idle hosts
and over 2 s between 20 that share a busy core; trying again too soon brings links in excess."""

JOIN_LIFETIME = 30.0
"""Seconds in which a JOIN can be answered. Chosen: a walk of six hops with a dial, several
times."""

RINGS_FIRST = 3.0
"""Seconds in which the peers next to this node on rings are asked before JOINs are sent. Chosen: a
dial and a round trip, with room."""

CONTACTS_ASKED = 3
"""Contacts asked for nodes at once. Chosen: three, so that one can't eclipse us."""

MAX_CONTACTS = 64
"""Contacts remembered. Chosen: as many as NODES from four peers name."""

MAX_ASKED = 32
"""Peers asked for nodes that have yet to answer; the oldest is forgotten first."""


class JoinProcedure:
    """The joining side: contacts, GETNODES and its answers, JOINs until C_rand links stand."""

    __slots__ = (
        "_asked",
        "_awaited",
        "_contacts",
        "_overlay",
        "_tried",
        "_ttl",
        "_walking",
        "in_progress",
        "open_until",
    )

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._contacts: dict[PeerId, None] = {}
        self._asked: dict[PeerId, Time] = {}
        """Peers that were asked for nodes, by whichever procedure, and when."""
        self._awaited: dict[PeerId, None] = {}
        """Contacts of this join that have yet to answer, or to be reached."""
        self.in_progress = False
        self._walking = False
        """Whether JOINs have been sent in this procedure."""
        self._tried: dict[PeerId, None] = {}
        """Nodes at which they started. Bound: C_rand for each TTL."""
        self._ttl = 0
        self.open_until: Time = 0.0
        """Until when a JOIN of this node can be answered."""

    def contacts(self) -> list[PeerId]:
        return list(self._contacts)

    def add_contacts(self, contacts: tuple[PeerId, ...]) -> None:
        """Remember `contacts`. Beyond `MAX_CONTACTS`, the oldest half stays, since it leads back
        after a partition, and the newest half."""
        for contact in contacts:
            if contact != self._overlay.me:
                self._contacts.setdefault(contact)
        known = list(self._contacts)
        if len(known) > MAX_CONTACTS:
            half = MAX_CONTACTS // 2
            self._contacts = dict.fromkeys(known[:half] + known[-half:])

    # GETNODES and NODES

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
        if sender not in self._asked:
            return False
        del self._asked[sender]
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

    # Joining

    def start(self, now: Time) -> None:
        """Ask some random contacts for nodes (E03); without contacts, wait for some."""
        if self.in_progress or not self._contacts:
            return
        overlay = self._overlay
        self.in_progress = True
        self._walking = False
        self._tried.clear()
        self._ttl = overlay.params.join_ttl
        timeout = overlay.jittered(overlay.with_dial_time(NODES_TIMEOUT))
        overlay.set_timer(Timer.JOIN, now + timeout)
        contacts = self._disjoint_contacts()
        self._awaited = dict.fromkeys(contacts)
        for contact in contacts:
            self.ask(contact, now)

    def _disjoint_contacts(self) -> list[PeerId]:
        """Random contacts of as many groups as there are, so that no single party chooses what
        this node learns (E02)."""
        overlay = self._overlay
        first: dict[Group, PeerId] = {}
        others: list[PeerId] = []
        for contact in pick_some(overlay.rng, self.contacts(), MAX_CONTACTS):
            group = overlay.group_of(contact)
            if first.setdefault(contact if group is None else group, contact) != contact:
                others.append(contact)
        return [*first.values(), *others][:CONTACTS_ASKED]

    def _walk(self, now: Time) -> None:
        """Send the JOINs that are still needed to random nodes of the view (E04), and to others
        than before while there are any (E08): first to those that are connected, since a walk
        forgets where it started, and a dial costs more than all the rest of a join."""
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
        overlay = self._overlay
        wait = overlay.jittered(overlay.with_dial_time(timeout))
        overlay.set_timer(Timer.JOIN, now + wait)

    def on_timer(self, now: Time) -> None:
        """No contact has answered, or links are still missing: go on with a lower TTL (E08)."""
        overlay = self._overlay
        if len(overlay.active) >= overlay.params.random_links:
            self._finish()
        elif not self._tried:
            self._walk(now)
        elif self._ttl == 0:
            self._finish()
        else:
            self._ttl -= 1
            self._walk(now)

    def on_link(self) -> None:
        """A link was added: the join ends with the last one that it was to bring."""
        if self._walking and len(self._overlay.active) >= self._overlay.params.random_links:
            self._finish()

    def _finish(self) -> None:
        self.in_progress = self._walking = False
        self._tried.clear()
        self._awaited.clear()
        self._overlay.cancel_timer(Timer.JOIN)

    def clear(self) -> None:
        """This node has left the overlay."""
        self._finish()
        self._asked.clear()
        self._contacts.clear()
        self.open_until = 0.0
