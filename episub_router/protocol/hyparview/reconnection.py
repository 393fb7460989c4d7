"""Going back to peers that were lost, so that a healed partition merges again (E02).

A partition looks like the failure of many neighbours, and each half replaces them by its own.
When it heals, nothing in the views of one half points to the other, unless somebody tries.
So neighbours lost to failure are dialled again for a while, and one that answers is asked
for a link as at the end of a JOIN's walk. Contacts are asked for nodes now and then as well,
which joins overlays that never were one.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.messages import GetNodes, Join, Nodes
from episub_router.protocol.types import NEVER, PeerId, Time


class Reconnection:
    """Remembers lost neighbours, at most `lost_memory` of them, each for `lost_tries` tries."""

    __slots__ = ("_ask_contacts_at", "_asked", "_lost", "_overlay", "_rejoined", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._lost: dict[PeerId, int] = {}
        """Lost neighbours, the longest lost first, and how often each was tried."""
        self._rejoined: dict[PeerId, None] = {}
        """Those of them that were reached in this interval, and sent a JOIN."""
        self._asked: PeerId | None = None
        """The contact that was asked for nodes."""
        self._ask_contacts_at = NEVER
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        self._ask_contacts_at = now + self._overlay.jittered(self._overlay.params.contact_interval)
        self._schedule(now)

    def _schedule(self, now: Time) -> None:
        self.deadline = now + self._overlay.jittered(self._overlay.params.recontact_interval)

    def on_lost(self, peer: PeerId) -> None:
        """A neighbour's link failed."""
        self._lost.setdefault(peer, 0)
        if len(self._lost) > self._overlay.params.lost_memory:
            del self._lost[next(iter(self._lost))]

    def on_link(self, peer: PeerId) -> None:
        self._lost.pop(peer, None)

    def rejoined(self, peer: PeerId) -> bool:
        """Whether a link that `peer` grants now is what we want, full or not."""
        return peer in self._rejoined

    def on_left(self, peer: PeerId) -> None:
        """It left by itself: nothing to go back to."""
        self._lost.pop(peer, None)

    def fire(self, now: Time, contacts: list[PeerId]) -> None:
        """Try some lost neighbours; ask one of `contacts` for nodes if that is due."""
        overlay = self._overlay
        self._schedule(now)
        self._rejoined.clear()
        for peer in pick_some(overlay.rng, list(self._lost), overlay.params.lost_tried_at_once):
            self._lost[peer] += 1
            if self._lost[peer] >= overlay.params.lost_tries:
                del self._lost[peer]
            overlay.when_connected(peer, partial(self._rejoin, peer), now)
        if self._ask_contacts_at <= now:
            self._ask_contacts_at = now + overlay.jittered(overlay.params.contact_interval)
            distant = [peer for peer in contacts if peer not in overlay.active]
            for peer in pick_some(overlay.rng, distant, 1):
                overlay.when_connected(peer, partial(self._ask, peer), now)

    def _rejoin(self, peer: PeerId, up: bool, now: Time) -> None:
        if up and peer not in self._overlay.active:
            self._rejoined[peer] = None
            self._overlay.send(peer, Join(self._overlay.me, 0))

    def _ask(self, contact: PeerId, up: bool, now: Time) -> None:
        if up:
            self._asked = contact
            self._overlay.send(contact, GetNodes())

    def on_nodes(self, sender: PeerId, nodes: Nodes) -> bool:
        """NODES from the contact that was asked: what is new in it is worth knowing. False if
        `sender` wasn't asked."""
        overlay = self._overlay
        if sender != self._asked:
            return False
        self._asked = None
        for peer in (sender, *nodes.peers[: overlay.params.nodes_size]):
            overlay.remember(peer, sender)
        overlay.release(sender)
        return True

    def stop(self) -> None:
        self._lost.clear()
        self._rejoined.clear()
        self._asked = None
        self.deadline = NEVER
