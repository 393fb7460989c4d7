"""Join: a new node asks contacts for nodes, and sends JOINs that walk until a member accepts
(E02-E08). With rings, the peers next to it are asked first (`rings`)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.views import pick_some
from episub_router.protocol.messages import (
    MAX_NODES,
    ForwardJoin,
    GetNodes,
    Join,
    LinkKind,
    NeighborRole,
    Nodes,
)
from episub_router.protocol.types import NEVER, Group, PeerId, Time
from episub_router.util.bounded import put_last

NODES_TIMEOUT = 3.0
"""Seconds that contacts have to answer GETNODES, and peers next on rings to accept before JOINs are
sent. Chosen: one round trip and a dial, with room."""

JOIN_TIMEOUT = 5.0
"""Seconds that JOINs have to bring links. Measured: six hops and a dial take 1 s, and over
2 s where 20 hosts share a core."""

JOIN_LIFETIME = 30.0
"""Seconds in which a JOIN can be answered. Chosen: several walks of six hops with a dial."""

CONTACTS_ASKED = 8
"""Contacts asked for nodes at once. Measured: a fifth of them hostile (docs/security.md)."""

MAX_CONTACTS = 64
"""Contacts remembered. Chosen: as many as NODES from four peers name."""

MAX_ASKED = 32
"""Peers asked for nodes that have yet to answer; the oldest is forgotten first."""


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
        known = [*self.contacts, *contacts]
        known = [peer for peer in dict.fromkeys(known) if peer != self._overlay.me]
        if len(known) > MAX_CONTACTS:
            half = MAX_CONTACTS // 2
            known = known[:half] + known[-half:]
        self.contacts = dict.fromkeys(known)

    def ask(self, peer: PeerId, now: Time, count: int = 0) -> None:
        """Ask `peer` for nodes, at most `count` unless 0, dialling it if need be (E03)."""
        self._overlay.when_connected(peer, partial(self._ask, peer, count), now)

    def _ask(self, peer: PeerId, count: int, up: bool, now: Time) -> None:
        if not up:
            self._stop_waiting_for(peer, now)
        elif now - self._asked.get(peer, -NEVER) >= NODES_TIMEOUT:
            put_last(self._asked, peer, now, MAX_ASKED)
            self._overlay.send(peer, GetNodes(count))

    def awaits(self, peer: PeerId) -> bool:
        """Whether `peer` was asked for nodes and has yet to answer."""
        return peer in self._asked

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
        if not self._overlay.params.ring_links:
            self._walk(now)
        else:
            self._walking = True
            self._wait(now, NODES_TIMEOUT)

    def start(self, now: Time) -> None:
        """Ask some random contacts for nodes (E03); without contacts, wait for some."""
        if self.in_progress or not self.contacts:
            return
        self.in_progress = True
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
        needed = max(0, overlay.params.random_links - len(overlay.active))
        view = overlay.passive.sample(overlay.rng, len(overlay.passive))
        fresh = [peer for peer in view if peer not in self._tried]
        connected = [peer for peer in fresh if overlay.is_connected(peer)]
        others = fresh + [peer for peer in view if peer in self._tried]
        starts = (connected * needed or others)[:needed]
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
        self._overlay.set_timer(Timer.JOIN, now + self._overlay.with_dial_time(timeout))

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


class JoinHandler:
    """What members do with the joins of others: JOIN and FORWARDJOIN (E05-E07)."""

    __slots__ = ("_overlay",)

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def on_join(self, sender: PeerId, join: Join, now: Time) -> None:
        """JOIN: accept where there is room or the walk ends here, else pass it on (E05, E06).
        This is settled before the dial of E05, as passing on needs no connection."""
        overlay = self._overlay
        joiner = join.peer
        ttl = min(join.ttl, overlay.params.join_ttl)
        link = overlay.active.get(joiner)
        if joiner == overlay.me or link is not None:
            if not self._forward(sender, join, ttl) and link is not None:
                overlay.send_neighbor(joiner, NeighborRole.ACCEPT, link.kind)
        elif (
            not overlay.is_full
            or overlay.is_next_on_a_ring(joiner)
            or not self._forward(sender, join, ttl)
        ):
            admit = partial(self._admit, sender, join, ttl)
            overlay.when_connected(joiner, admit, now, for_others=True)

    def _admit(self, sender: PeerId, join: Join, ttl: int, up: bool, now: Time) -> None:
        overlay = self._overlay
        joiner = join.peer
        if not up:
            overlay.drop(sender, DropReason.UNREACHABLE)
            self._forward(sender, join, ttl)
        elif joiner in overlay.active:
            return
        elif overlay.make_room(joiner, in_need=True):
            overlay.accept(joiner, LinkKind.RANDOM, now, None)
            walker = overlay.active.pick(overlay.rng, joiner)
            if walker is not None:
                overlay.send(walker, ForwardJoin(joiner, overlay.params.join_ttl))
        else:
            overlay.reject(joiner, DropReason.VIEW_FULL)

    def on_forward_join(self, sender: PeerId, message: ForwardJoin) -> None:
        """FORWARDJOIN: remember the new node, and pass the message on (E07)."""
        self._overlay.remember(message.peer, sender)
        self._forward(sender, message, min(message.ttl, self._overlay.params.join_ttl))

    def _forward(self, sender: PeerId, message: Join | ForwardJoin, ttl: int) -> bool:
        """Pass `message` on to one random neighbour; False where the walk ends here."""
        overlay = self._overlay
        walker = overlay.active.pick(overlay.rng, sender, message.peer) if ttl > 0 else None
        if walker is not None:
            overlay.send(walker, replace(message, ttl=ttl - 1))
        return walker is not None
