"""Join procedure: from a list of contacts to the first C_rand links (E03, E04, E08).

The joining node asks contacts for nodes (GETNODES), then sends JOINs that walk until a member
accepts. What members do with them is `join_handler`.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import GetNodes, Join, Nodes
from episub_router.protocol.types import NEVER, Group, PeerId, Time


class JoinProcedure:
    """Asks contacts for nodes, then sends JOINs until C_rand links stand or all was tried."""

    __slots__ = ("_asked", "_contacts", "_overlay", "_started", "_ttl", "_walking", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._contacts: dict[PeerId, None] = {}
        self._asked: dict[PeerId, bool] = {}
        """Contacts asked in this round, and whether they have answered."""
        self._walking = False
        """JOINs of ours are under way."""
        self._started: dict[PeerId, bool] = {}
        """Nodes that they start at, and whether the dial is still under way."""
        self._ttl = 0
        self.deadline = NEVER

    @property
    def under_way(self) -> bool:
        return self.deadline != NEVER

    @property
    def walking(self) -> bool:
        return self._walking

    @property
    def contacts(self) -> list[PeerId]:
        return list(self._contacts)

    def add_contacts(self, contacts: tuple[PeerId, ...]) -> None:
        """Remember `contacts`. Beyond `max_waiting`, those known longest stay, since they lead back
        after a partition, and the newest."""
        for contact in contacts:
            if contact != self._overlay.me:
                self._contacts.setdefault(contact)
        most = self._overlay.params.max_waiting
        if len(self._contacts) > most:
            known = list(self._contacts)
            oldest = (most + 1) // 2
            self._contacts = dict.fromkeys(known[:oldest] + known[len(known) - most + oldest :])

    def start(self, now: Time) -> None:
        """Ask some random contacts for nodes (E03); without contacts, wait for some."""
        if self.under_way or not self._contacts:
            return
        overlay = self._overlay
        chosen = self._disjoint(overlay.params.contacts_asked)
        self._asked = dict.fromkeys(chosen, False)
        self._walking = False
        self._ttl = overlay.params.join_ttl
        self.deadline = now + overlay.jittered(overlay.patience(overlay.params.nodes_timeout))
        for contact in chosen:
            overlay.when_connected(contact, partial(self._ask, contact), now)

    def _disjoint(self, count: int) -> list[PeerId]:
        """`count` random contacts, of as many groups as there are, so that they don't tell us one
        party's tale (E02)."""
        overlay = self._overlay
        if len(self._contacts) <= count:
            return pick_some(overlay.rng, list(self._contacts), count)
        first: dict[Group, PeerId] = {}
        others: list[PeerId] = []
        for contact in pick_some(overlay.rng, list(self._contacts), len(self._contacts)):
            group = overlay.group_of(contact)
            if first.setdefault(contact if group is None else group, contact) != contact:
                others.append(contact)
        return [*first.values(), *others][:count]

    def _ask(self, contact: PeerId, up: bool, now: Time) -> None:
        if up:
            self._overlay.send(contact, GetNodes())
        else:
            self._asked.pop(contact, None)
            self._walk_when_all_answered(now)

    def on_nodes(self, sender: PeerId, nodes: Nodes, now: Time) -> None:
        """NODES from a contact: the passive view is fresh, JOINs can start (E03, E04)."""
        overlay = self._overlay
        if sender not in self._asked or self._asked[sender]:
            overlay.drop(sender, DropReason.UNSOLICITED)
            return
        self._asked[sender] = True
        self._ttl = max(0, min(self._ttl, nodes.ttl))
        overlay.remember(sender)
        for peer in nodes.peers[: overlay.params.nodes_size]:
            overlay.remember(peer, sender)
        self._walk_when_all_answered(now)

    def _walk_when_all_answered(self, now: Time) -> None:
        if self.under_way and not self._walking and all(self._asked.values()):
            self._walk(now)

    def _walk(self, now: Time) -> None:
        """Send the JOINs that are still needed to random nodes of the view (E04), and to others
        than before while there are any (E08)."""
        overlay = self._overlay
        starts = self._starts(self._needed)
        if not starts and not any(self._started.values()):
            self.stop()
            return
        self._walking = True
        self._wait(now)
        join = Join(overlay.me, self._ttl)
        for start in starts:
            self._started[start] = True
            overlay.when_connected(start, partial(self._send_join, start, join), now)

    def _starts(self, count: int) -> list[PeerId]:
        """Where to start `count` walks: at nodes of the view that are connected already, and
        otherwise at random; at others than before while there are any (E08).

        A walk forgets where it started, and a dial costs more than all the rest of a join.
        """
        overlay = self._overlay
        view = overlay.passive.sample(overlay.rng, len(overlay.passive))
        fresh = [peer for peer in view if peer not in self._started]
        connected = [peer for peer in fresh if overlay.is_connected(peer)]
        if connected:
            return (connected * count)[:count]
        return (fresh + view)[:count]

    @property
    def _needed(self) -> int:
        """JOINs to send: none for a link that stands or a start that is being dialled."""
        overlay = self._overlay
        dialling = sum(self._started.values())
        return max(0, overlay.params.random_links - len(overlay.active) - dialling)

    def _send_join(self, start: PeerId, join: Join, up: bool, now: Time) -> None:
        if start not in self._started:
            return  # Joining has ended meanwhile.
        self._started[start] = False
        if up:
            self._overlay.send(start, join)
            self._wait(now)

    def _wait(self, now: Time) -> None:
        """Give the JOINs just sent their time."""
        overlay = self._overlay
        self.deadline = now + overlay.jittered(overlay.patience(overlay.params.join_timeout))

    def fire(self, now: Time) -> None:
        """Nobody answered, or links are still missing: go on with a lower TTL (E08)."""
        overlay = self._overlay
        if not self._walking:
            self._walk(now)
        elif len(overlay.active) >= overlay.params.random_links or self._ttl == 0:
            self.stop()
        elif not self._needed:
            self._wait(now)
        else:
            self._ttl -= 1
            self._walk(now)

    def on_link(self) -> None:
        """A link was added; joining ends with the last one that it was to bring."""
        if self._walking and len(self._overlay.active) >= self._overlay.params.random_links:
            self.stop()

    def stop(self) -> None:
        self._asked.clear()
        self._started.clear()
        self._walking = False
        self.deadline = NEVER

    def forget(self) -> None:
        self.stop()
        self._contacts.clear()
