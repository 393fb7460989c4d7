"""Keeping links two-sided and alive (E11, E12, E15).

TCP reports most failures. Two it does not: a link that only one side believes in, and a
connection whose stream died on one side. Both are silent, so a neighbour that has sent
nothing for a while is asked (NEIGHBOR as a list query), and dropped if it stays silent.
"""

from __future__ import annotations

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Disconnect, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time

_SILENT_CHECKS = 3
"""Check intervals of silence after which a link counts as failed."""

_TELL_AGAIN = 1.0
"""Seconds after which a peer that isn't a neighbour is told so again."""


class LinkCheck:
    """Queries silent neighbours and puts those right who wrongly think they are ours."""

    __slots__ = ("_overlay", "_told", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._told: dict[PeerId, Time] = {}
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        self._schedule(now)

    def _schedule(self, now: Time) -> None:
        self.deadline = now + self._overlay.jittered(self._overlay.params.link_check_interval)

    def fire(self, now: Time) -> list[PeerId]:
        """Query the silent; return those whose link has failed."""
        overlay = self._overlay
        interval = overlay.params.link_check_interval
        self._schedule(now)
        failed = []
        for peer, link in overlay.active.items():
            silence = now - link.heard
            if silence >= _SILENT_CHECKS * interval:
                failed.append(peer)
            elif silence >= interval / 2:
                overlay.tell(peer, NeighborRole.QUERY, link.kind)
        for peer in failed:
            overlay.drop_link(peer, DownReason.FAILED, tell=True, remember=False)
        return failed

    def on_query(self, sender: PeerId, query: Neighbor, now: Time) -> bool:
        """NEIGHBOR as a query: answer a neighbour with our list (E11).

        A sender that wrongly believes to be a neighbour becomes one if there is room, else
        it is told (E12). True if a link was added.
        """
        overlay = self._overlay
        link = overlay.active.get(sender)
        if link is not None:
            link.update(query, now)
            peers = [peer for peer in overlay.active if peer != sender]
            overlay.tell(sender, NeighborRole.LIST, link.kind, *peers)
        elif len(overlay.active) < overlay.params.active_size:
            overlay.add_link(sender, query.kind, now, query)
            overlay.tell(sender, NeighborRole.ACCEPT, query.kind)
            return True
        else:
            overlay.drop(sender, DropReason.NOT_NEIGHBOR)
            overlay.send(sender, Disconnect())
        return False

    def on_list(self, sender: PeerId, answer: Neighbor, now: Time) -> None:
        """The list of a neighbour: the link stands, and spare passive room is filled (E11)."""
        overlay = self._overlay
        link = overlay.active.get(sender)
        if link is None:
            overlay.drop(sender, DropReason.UNSOLICITED)
            return
        link.update(answer, now)
        for peer in link.peers:
            if len(overlay.passive) < overlay.passive.size:
                overlay.remember(peer, sender)

    def on_stranger(self, sender: PeerId, now: Time) -> None:
        """A peer sent us what only neighbours send: tell it, now and then (E12)."""
        if self._told.get(sender, -NEVER) + _TELL_AGAIN > now:
            return
        self._told.pop(sender, None)
        self._told[sender] = now
        if len(self._told) > self._overlay.params.max_waiting:
            del self._told[next(iter(self._told))]
        self._overlay.send(sender, Disconnect())

    def stop(self) -> None:
        self._told.clear()
        self.deadline = NEVER
