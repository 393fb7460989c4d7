"""Link check: active links are two-sided and live (E11, E12, E15).

TCP reports most failures. It reports neither a link that only one side knows of nor a
connection whose stream failed on one side. Both are silent, so a neighbour that has sent
nothing for a while is queried (NEIGHBOR as a list query), and dropped if it stays silent.
"""

from __future__ import annotations

from collections.abc import Callable

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Disconnect, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time

_SILENT_CHECKS = 3
"""Check intervals of silence after which a link counts as failed."""

_NOTIFY_AGAIN = 1.0
"""Seconds after which a peer that isn't a neighbour is sent DISCONNECT again."""

_MAX_NOTIFIED = 64
"""Peers remembered that were sent DISCONNECT because they aren't neighbours."""


class LinkCheck(Procedure):
    """Queries silent neighbours, and notifies peers that wrongly behave as neighbours."""

    __slots__ = ("_notified", "_replace_failed")

    def __init__(
        self, state: OverlayState, replace_failed: Callable[[list[PeerId], Time], None]
    ) -> None:
        """`replace_failed` is called with the neighbours whose links have just failed."""
        super().__init__(state)
        self._replace_failed = replace_failed
        self._notified: dict[PeerId, Time] = {}

    def start(self, now: Time) -> None:
        self.deadline = now + self._state.jittered(self._state.params.link_check_interval)

    def fire(self, now: Time) -> None:
        """Query silent neighbours, and drop those that have been silent for too long."""
        state = self._state
        interval = state.params.link_check_interval
        self.start(now)
        failed = []
        for peer, link in state.active.items():
            silence = now - link.last_activity
            if silence >= _SILENT_CHECKS * interval:
                failed.append(peer)
            elif silence >= interval / 2:
                state.send_neighbor(peer, NeighborRole.QUERY, link.kind)
        for peer in failed:
            state.drop_link(peer, DownReason.FAILED, notify=True, remember=False)
        if failed:
            self._replace_failed(failed, now)

    def on_query(self, sender: PeerId, query: Neighbor, now: Time) -> None:
        """NEIGHBOR as a query: answer a neighbour with our list (E11).

        A sender that isn't a neighbour but behaves as one becomes one if there is room, else it
        gets DISCONNECT (E12).
        """
        state = self._state
        link = state.active.get(sender)
        if link is not None:
            link.update(query, now)
            peers = [peer for peer in state.active if peer != sender]
            state.send_neighbor(sender, NeighborRole.LIST, link.kind, *peers)
        elif len(state.active) < state.params.active_size:
            state.add_link(sender, query.kind, now, query)
            state.send_neighbor(sender, NeighborRole.ACCEPT, query.kind)
        else:
            state.drop(sender, DropReason.NOT_NEIGHBOR)
            state.send(sender, Disconnect())

    def on_list(self, sender: PeerId, answer: Neighbor, now: Time) -> None:
        """The list of a neighbour: the link stands, and spare passive room is filled (E11)."""
        state = self._state
        link = state.active.get(sender)
        if link is None:
            state.drop(sender, DropReason.UNSOLICITED)
            return
        link.update(answer, now)
        for peer in link.peers:
            if len(state.passive) < state.passive.size:
                state.remember(peer, sender)

    def on_non_neighbor(self, sender: PeerId, now: Time) -> None:
        """A peer sent us what only neighbours send: DISCONNECT, at most once a second (E12)."""
        if self._notified.get(sender, -NEVER) + _NOTIFY_AGAIN > now:
            return
        self._notified.pop(sender, None)
        self._notified[sender] = now
        if len(self._notified) > _MAX_NOTIFIED:
            del self._notified[next(iter(self._notified))]
        self._state.send(sender, Disconnect())

    def stop(self) -> None:
        super().stop()
        self._notified.clear()
