"""Reconnection: lost neighbours and contacts are tried again, so that partitions merge (E02).

A partition looks like the failure of many neighbours, and each half replaces them by its own.
After it heals, no view of one half names a peer of the other. So neighbours lost to failure are
dialled again for a while, and asked for a link like the end of a JOIN's walk. Contacts are asked
for nodes periodically, which joins overlays that never were one; sooner by a node that lacks links
and knows no other peer, as when its few neighbours have left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import MAX_NODES, GetNodes, Join, Nodes
from episub_router.protocol.types import NEVER, PeerId, Time

_TRIED_AT_ONCE = 2
"""Lost neighbours dialled in one period. Ours."""

_MAX_TRIES = 20
"""Dials to one lost neighbour. Ours: ten minutes or so."""

_LONGEST_REST = 4.0
"""How many times longer contacts are left alone where nothing changes. Ours: an answer may cost a
connection; of many nodes that were cut off from others one asks soon all the same."""

_MAX_LOST = 16
"""Lost neighbours remembered. Ours: more than the hard bound of the active view."""


class Reconnection(Procedure):
    """Remembers lost neighbours and tries some of them in each period."""

    __slots__ = ("_asked", "_asked_at", "_contact_deadline", "_get_contacts", "_lost", "_rejoined")

    def __init__(self, state: OverlayState, get_contacts: Callable[[], list[PeerId]]) -> None:
        """`get_contacts` gives the contacts known now."""
        super().__init__(state)
        self._get_contacts = get_contacts
        self._lost: dict[PeerId, int] = {}
        """Lost neighbours, the longest lost first, and how often each was tried."""
        self._rejoined: dict[PeerId, None] = {}
        """Lost neighbours reached in this period, which were sent a JOIN."""
        self._asked: PeerId | None = None
        """The contact that was asked for nodes."""
        self._asked_at: Time = -NEVER
        """When a contact was last asked."""
        self._contact_deadline = NEVER

    def start(self, now: Time) -> None:
        self._contact_deadline = now + self._state.jittered(self._state.params.contact_interval)
        self._schedule(now)

    def _schedule(self, now: Time) -> None:
        self.deadline = now + self._state.jittered(self._state.params.recontact_interval)

    def on_link_failed(self, peer: PeerId) -> None:
        """The link to the neighbour `peer` has failed."""
        self._lost.setdefault(peer, 0)
        if len(self._lost) > _MAX_LOST:
            del self._lost[next(iter(self._lost))]

    def on_link(self, peer: PeerId) -> None:
        """`peer` is a neighbour now."""
        self._lost.pop(peer, None)

    def on_leave(self, peer: PeerId) -> None:
        """`peer` has left the overlay by itself: don't try it again."""
        self._lost.pop(peer, None)

    def has_rejoined(self, peer: PeerId) -> bool:
        """Whether a link that `peer` accepts now is wanted even in a full view."""
        return peer in self._rejoined

    def fire(self, now: Time) -> None:
        """Try some lost neighbours; ask a contact for nodes if that is due."""
        state = self._state
        self._schedule(now)
        self._rejoined.clear()
        for peer in pick_some(state.rng, list(self._lost), _TRIED_AT_ONCE):
            self._lost[peer] += 1
            if self._lost[peer] >= _MAX_TRIES:
                del self._lost[peer]
            state.when_connected(peer, partial(self._rejoin, peer), now)
        interval = state.params.contact_interval
        is_due = self._contact_deadline <= now
        if is_due:
            self._contact_deadline = now + state.jittered(interval)
            is_due = not state.may_rest(self._asked_at, interval, now, _LONGEST_REST)
        if is_due or (state.is_in_need and not state.passive):
            self._asked_at = now
            distant = [peer for peer in self._get_contacts() if peer not in state.active]
            for peer in pick_some(state.rng, distant, 1):
                state.when_connected(peer, partial(self._ask, peer), now)

    def _rejoin(self, peer: PeerId, up: bool, now: Time) -> None:
        if up and peer not in self._state.active:
            state = self._state
            self._rejoined[peer] = None
            nonce = state.open_requests.open(peer, now)
            state.send(peer, Join(state.me, 0, state.source_trees, nonce))

    def _ask(self, contact: PeerId, up: bool, now: Time) -> None:
        if up:
            self._asked = contact
            self._state.send(contact, GetNodes())

    def on_nodes(self, sender: PeerId, nodes: Nodes) -> bool:
        """NODES from the contact that was asked: remember its peers. False if `sender` wasn't
        asked."""
        state = self._state
        if sender != self._asked:
            return False
        self._asked = None
        for peer in (sender, *nodes.peers[:MAX_NODES]):
            state.remember(peer, sender)
        state.release(sender)
        return True

    def stop(self) -> None:
        super().stop()
        self._lost.clear()
        self._rejoined.clear()
        self._asked = None
