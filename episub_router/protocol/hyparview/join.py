"""Join procedure: from a list of contacts to the first C_rand links (E03, E04, E08).

The joining node asks contacts for nodes (GETNODES), then sends JOINs that walk until a member
accepts. What members do with them is `join_handler`.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.joining.open_joins import OpenJoins
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import MAX_NODES, GetNodes, Join, Nodes
from episub_router.protocol.types import NEVER, Group, PeerId, Time

NODES_TIMEOUT = 3.0
"""Seconds that contacts have to answer GETNODES. Ours: one round trip and a dial, with room."""

JOIN_TIMEOUT = 5.0
"""Seconds that JOINs have to bring links. Measured: six hops and a dial take 1 s between idle hosts
and over 2 s between 20 that share a busy core; trying again too soon brings links in excess."""

RINGS_FIRST = 3.0
"""Seconds in which the peers next to us on rings are asked before JOINs are sent. Ours: a dial and
a round trip, with room."""

CONTACTS_ASKED = 3
"""Contacts asked for nodes at once. Ours: three, so that one can't eclipse us."""

MAX_CONTACTS = 64
"""Contacts remembered. Ours."""


class JoinProcedure(Procedure):
    """Asks contacts for nodes, then sends JOINs until C_rand links stand or all was tried."""

    __slots__ = ("_asked", "_contacts", "_open", "_round", "_started", "_ttl", "_walking")

    def __init__(self, state: OverlayState) -> None:
        super().__init__(state)
        self._contacts: dict[PeerId, None] = {}
        self._asked: dict[PeerId, bool] = {}
        """Contacts asked in this round, and whether they have answered."""
        self._walking = False
        """Whether JOINs of ours are in flight."""
        self._started: dict[PeerId, bool] = {}
        """Nodes that they start at, and whether the dial is still in progress."""
        self._ttl = 0
        self._open = OpenJoins()
        self._round = 0
        """Rounds of JOINs sent."""

    @property
    def in_progress(self) -> bool:
        return self.deadline != NEVER

    @property
    def walking(self) -> bool:
        """Whether JOINs of ours are in flight."""
        return self._walking

    def contacts(self) -> list[PeerId]:
        return list(self._contacts)

    def add_contacts(self, contacts: tuple[PeerId, ...]) -> None:
        """Remember `contacts`. Beyond `MAX_CONTACTS`, the oldest half stays, since it leads back
        after a partition, and the newest half."""
        for contact in contacts:
            if contact != self._state.me:
                self._contacts.setdefault(contact)
        most = MAX_CONTACTS
        if len(self._contacts) > most:
            known = list(self._contacts)
            oldest = (most + 1) // 2
            self._contacts = dict.fromkeys(known[:oldest] + known[len(known) - most + oldest :])

    def start(self, now: Time) -> None:
        """Ask some random contacts for nodes (E03); without contacts, wait for some."""
        if self.in_progress or not self._contacts:
            return
        state = self._state
        chosen = self._disjoint(CONTACTS_ASKED)
        self._asked = dict.fromkeys(chosen, False)
        self._walking = False
        self._round = 0
        self._ttl = state.params.join_ttl
        self.deadline = now + state.jittered(state.with_dial_time(NODES_TIMEOUT))
        for contact in chosen:
            state.when_connected(contact, partial(self._ask, contact), now)

    def _disjoint(self, count: int) -> list[PeerId]:
        """`count` random contacts of as many groups as there are, so that no single party chooses
        what we learn (E02)."""
        state = self._state
        if len(self._contacts) <= count:
            return pick_some(state.rng, list(self._contacts), count)
        first: dict[Group, PeerId] = {}
        others: list[PeerId] = []
        for contact in pick_some(state.rng, list(self._contacts), len(self._contacts)):
            group = state.group_of(contact)
            if first.setdefault(contact if group is None else group, contact) != contact:
                others.append(contact)
        return [*first.values(), *others][:count]

    def _ask(self, contact: PeerId, up: bool, now: Time) -> None:
        if up:
            self._state.send(contact, GetNodes())
        else:
            self._asked.pop(contact, None)
            self._walk_when_all_answered(now)

    def awaits(self, contact: PeerId) -> bool:
        """Whether `contact` was asked for nodes and has yet to answer."""
        return self._asked.get(contact) is False

    def on_nodes(self, sender: PeerId, nodes: Nodes, now: Time) -> bool:
        """NODES from a contact: the passive view is fresh, JOINs can start (E03, E04). False if
        `sender` wasn't asked."""
        state = self._state
        if not self.awaits(sender):
            state.drop(sender, DropReason.UNSOLICITED)
            return False
        self._asked[sender] = True
        self._ttl = max(0, min(self._ttl, nodes.ttl))
        state.remember(sender)
        for peer in nodes.peers[:MAX_NODES]:
            state.remember(peer, sender)
        self._walk_when_all_answered(now)
        return True

    def _walk_when_all_answered(self, now: Time) -> None:
        if not self.in_progress or self._walking or not all(self._asked.values()):
            return
        state = self._state
        on_rings = state.params.ring_links
        if not on_rings or self._needed > on_rings:
            self._walk(now, on_rings)
        else:
            # The peers next to us, of which the answers tell, come first.
            self.deadline = now + state.jittered(state.with_dial_time(RINGS_FIRST))

    def _walk(self, now: Time, on_rings: int = 0) -> None:
        """Send the JOINs that are still needed, but for links `on_rings`, to random nodes of the
        view (E04), and to others than before while there are any (E08)."""
        state = self._state
        starts = self._starts(self._needed - on_rings)
        if not starts and not any(self._started.values()):
            self._finish()
            return
        self._walking = True
        self._round += 1
        self._wait(now)
        for start in starts:
            self._started[start] = True
            state.when_connected(start, partial(self._send_join, start, self._ttl), now)

    def _starts(self, count: int) -> list[PeerId]:
        """Where to start `count` walks: at nodes of the view that are connected already, and
        otherwise at random; at others than before while there are any (E08).

        A walk forgets where it started, and a dial costs more than all the rest of a join.
        """
        state = self._state
        view = state.passive.sample(state.rng, len(state.passive))
        fresh = [peer for peer in view if peer not in self._started]
        connected = [peer for peer in fresh if state.is_connected(peer)]
        if connected:
            return (connected * count)[:count]
        return (fresh + view)[:count]

    @property
    def _needed(self) -> int:
        """JOINs to send: none for a link that stands or a start that is being dialled."""
        state = self._state
        dialling = sum(self._started.values())
        return max(0, state.params.random_links - len(state.active) - dialling)

    def _send_join(self, start: PeerId, ttl: int, up: bool, now: Time) -> None:
        if start not in self._started:
            return  # The join has ended meanwhile.
        self._started[start] = False
        if up:
            state = self._state
            nonce = self._open.open(state.rng, now)
            state.send(start, Join(state.me, ttl, state.source_trees, nonce))
            self._wait(now)

    def _wait(self, now: Time) -> None:
        """Give the JOINs just sent their time."""
        state = self._state
        self.deadline = now + state.jittered(state.with_dial_time(JOIN_TIMEOUT))

    def fire(self, now: Time) -> None:
        """No contact answered, or links are still missing: go on with a lower TTL (E08)."""
        state = self._state
        if not self._walking:
            self._walk(now)
        elif len(state.active) >= state.params.random_links or self._ttl == 0:
            self._finish()
        elif not self._needed:
            self._wait(now)
        else:
            self._ttl -= 1
            self._walk(now)

    def is_answered(self, nonce: int, now: Time) -> bool:
        """Whether an ACCEPT with this nonce is the first answer to a JOIN of ours.

        Without a nonce, as older peers send it, it counts for a node that is alone and where a
        round of JOINs has brought too few links, or it would get around the nonce.
        """
        if not nonce and len(self._state.active) and self._round < 2:
            return False
        return self._open.take(nonce, now)

    def on_link(self) -> None:
        """A link was added: the join ends with the last one that it was to bring."""
        if self._walking and len(self._state.active) >= self._state.params.random_links:
            self._finish()

    def _finish(self) -> None:
        self._asked.clear()
        self._started.clear()
        self._walking = False
        self.deadline = NEVER

    def stop(self) -> None:
        self._finish()
        self._open.clear()
        self._contacts.clear()
