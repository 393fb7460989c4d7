"""Reconnection: lost neighbours and contacts are tried again, so that partitions merge (E02).

A partition looks like the failure of many neighbours, and each half replaces them by its own.
After it heals, no view of one half names a peer of the other. So neighbours lost to failure are
dialled again for a while, and sent a JOIN like the end of a walk. Contacts are asked for nodes now
and then, which joins overlays that never were one; sooner by a node that lacks links and knows no
other peer, as when its few neighbours have left.
"""

from __future__ import annotations

from episub_router.protocol.hyparview.active_view import pick_some
from episub_router.protocol.hyparview.join import JoinProcedure
from episub_router.protocol.hyparview.neighbor import LinkPurpose, Neighbors
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.trickle import Trickle
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.types import PeerId, Time
from episub_router.util.bounded import put_last

RECONNECT_INTERVAL = 15.0
"""Seconds between two dials to lost neighbours. Chosen: halves of a healed partition find each
other within a minute."""

CONTACT_INTERVAL = 300.0
CONTACT_INTERVAL_MOST = 1200.0
"""Seconds between two requests to a contact. Chosen: a bootstrap node of 10,000 gets 33 GETNODES a
second at most; of many nodes that were cut off from others one asks soon all the same."""

_TRIED_AT_ONCE = 2
"""Lost neighbours dialled at a time."""

_MAX_TRIES = 20
"""Dials to one lost neighbour. Chosen: ten minutes or so."""

_MAX_LOST = 16
"""Lost neighbours remembered. Chosen: more than the hard bound of the active view."""


class Reconnection:
    """Remembers lost neighbours and tries some of them in each period."""

    __slots__ = ("_join", "_lost", "_neighbors", "_overlay", "_trickle")

    def __init__(self, overlay: Overlay, join: JoinProcedure, neighbors: Neighbors) -> None:
        self._overlay = overlay
        self._join = join
        self._neighbors = neighbors
        self._lost: dict[PeerId, int] = {}
        """Lost neighbours, and how often each was tried."""
        self._trickle = Trickle(overlay.rng, CONTACT_INTERVAL, CONTACT_INTERVAL_MOST)

    def start(self, now: Time) -> None:
        self._overlay.set_timer(Timer.RECONNECT, now + self._overlay.jittered(RECONNECT_INTERVAL))
        self._overlay.set_timer(Timer.CONTACT, self._trickle.start(now))

    def on_link_failed(self, peer: PeerId, now: Time) -> None:
        """The link to the neighbour `peer` has failed."""
        put_last(self._lost, peer, 0, _MAX_LOST)
        if self._trickle.interval > self._trickle.least:
            self._overlay.set_timer(Timer.CONTACT, self._trickle.start(now))

    def forget(self, peer: PeerId) -> None:
        """`peer` is a neighbour again, or has left the overlay: don't try it."""
        self._lost.pop(peer, None)

    def on_timer(self, now: Time) -> None:
        """Try some lost neighbours; ask a contact where no other peer is known."""
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
        """Ask a contact for nodes."""
        self._overlay.set_timer(Timer.CONTACT, self._trickle.next(now))
        self._ask_contact(now)

    def _ask_contact(self, now: Time) -> None:
        overlay = self._overlay
        distant = [peer for peer in self._join.contacts() if peer not in overlay.active]
        for peer in pick_some(overlay.rng, distant, 1):
            self._join.ask(peer, now)

    def clear(self) -> None:
        self._lost.clear()
