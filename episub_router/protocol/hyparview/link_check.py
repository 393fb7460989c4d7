"""Link check: active links are two-sided and live (E11, E12, E15).

TCP reports neither a link that only one side knows of nor a process that has stopped. Both are
silent: a neighbour that has sent nothing for a while is queried (NEIGHBOR as a list query), at
once if it should have sent something, and dropped if it stays silent. In a view that has long been
the same, queries come late, so that few are needed, and still before the link would fail.
"""

from __future__ import annotations

from collections.abc import Callable

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import Link
from episub_router.protocol.messages import Disconnect, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time

_SILENT_CHECKS = 3
"""Check intervals of silence after which a neighbour is suspected."""

_MOST_CALM = 3.0
"""How many times longer a neighbour may be silent before it is queried where nothing changes. Ours:
the check after that query is the one at which it is suspected, and queried again."""

_MOST_CALM_PROBED = 240.0
"""As above, where the driver notices by itself what has gone or stopped; there queries get rarer
with the square of the calm. Ours: what is left, a link that one side has forgotten, shows as soon
as messages are sent; each query costs an idle host milliseconds."""

_CHECKS_TO_ANSWER = 1.5
"""Check intervals that a query gets at least before the neighbour is suspected. Ours: after
`_MOST_CALM` that is at `_SILENT_CHECKS`."""

_SUSPICIOUS_SILENCE = 1.5
"""Seconds of silence from which on a neighbour can be suspected. Ours: longer than it takes until
GRAFT asks for what it should have pushed."""

_ANSWER_TIMEOUT = 4.0
"""Seconds that a suspected neighbour has to send anything. Ours: longer than an event loop is
blocked on a busy machine; a link that fails wrongly costs two frames and a new link."""

_NOTIFY_AGAIN = 1.0
"""Seconds after which a peer that isn't a neighbour is sent DISCONNECT again."""

_MAX_NOTIFIED = 64
"""Peers remembered that were sent DISCONNECT because they aren't neighbours."""


def send_query(state: OverlayState, peer: PeerId, link: Link, *, with_list: bool = False) -> None:
    """Ask a neighbour for a sign of life, and for its list, too, where few passive peers are known.
    The passive view probe asks for one in each of its periods."""
    enough = not with_list and 2 * len(state.passive) >= state.passive.size
    state.send_neighbor(peer, NeighborRole.QUERY, link.kind, numbers_only=enough)


class LinkCheck(Procedure):
    """Queries silent neighbours, and notifies peers that wrongly behave as neighbours."""

    __slots__ = ("_doubted", "_next_check", "_notified", "_replace_failed", "_suspects")

    def __init__(
        self, state: OverlayState, replace_failed: Callable[[list[PeerId], Time], None]
    ) -> None:
        """`replace_failed` is called with the neighbours whose links have just failed."""
        super().__init__(state)
        self._replace_failed = replace_failed
        self._notified: dict[PeerId, Time] = {}
        self._next_check: Time = NEVER
        self._doubted: dict[PeerId, Time] = {}
        """Neighbours that are suspected if they are still silent then. Bound: as below."""
        self._suspects: dict[PeerId, Time] = {}
        """Neighbours that were queried out of turn, and when. Bound: the active view's."""

    def start(self, now: Time) -> None:
        self._next_check = now + self._state.jittered(self._state.params.link_check_interval)
        self._set_deadline()

    def suspect(self, peer: PeerId, now: Time) -> None:
        """`peer` should have sent something: query it as soon as it has been silent for a while."""
        link = self._state.active.get(peer)
        if link is None or link.last_activity < self._suspects.get(peer, -NEVER):
            return
        self._suspects.pop(peer, None)  # It has answered since, and may be suspected again.
        silent_at = link.last_activity + _SUSPICIOUS_SILENCE
        if now < silent_at:
            self._doubted.setdefault(peer, silent_at)
        else:
            self._doubted.pop(peer, None)
            self._suspects[peer] = now
            send_query(self._state, peer, link)
        self._set_deadline()

    def query(self, peer: PeerId) -> None:
        """Query `peer`, if it is a neighbour; nothing follows from its silence."""
        link = self._state.active.get(peer)
        if link is not None:
            send_query(self._state, peer, link)

    def fire(self, now: Time) -> None:
        """Query silent neighbours, and drop those that have been silent for too long."""
        for peer in [peer for peer, due in self._doubted.items() if due <= now]:
            del self._doubted[peer]
            link = self._state.active.get(peer)
            if link is not None and link.last_activity + _SUSPICIOUS_SILENCE <= now:
                self.suspect(peer, now)
        failed = self._unanswering(now)
        for peer in failed:
            self._state.drop_link(peer, DownReason.FAILED, notify=True, remember=False)
        if self._next_check <= now:
            self.start(now)
            self._check_all(now)
        self._set_deadline()
        if failed:
            self._replace_failed(failed, now)

    def _unanswering(self, now: Time) -> list[PeerId]:
        """The suspected neighbours whose time is over; those that sent something are cleared."""
        active, failed = self._state.active, []
        for peer, since in list(self._suspects.items()):
            link = active.get(peer)
            if link is None or link.last_activity >= since:
                del self._suspects[peer]
            elif now >= since + _ANSWER_TIMEOUT:
                del self._suspects[peer]
                failed.append(peer)
        return failed

    def _check_all(self, now: Time) -> None:
        """Query neighbours that have been silent, and suspect those that were for too long and have
        left a query unanswered."""
        state = self._state
        interval = state.params.link_check_interval
        calm = state.calm(now)
        times, times_probed = min(calm, _MOST_CALM), min(calm * calm, _MOST_CALM_PROBED)
        for peer, link in state.active.items():
            quiet = (times_probed if state.is_probed(peer) else times) * interval / 2
            silence = now - link.last_activity
            enough = max(_SILENT_CHECKS * interval, quiet + _CHECKS_TO_ANSWER * interval)
            # After a long rest all have been silent for as long, as nothing was asked of them.
            if silence >= enough and link.queried_at > link.last_activity:
                # Not failed yet: one query, or its answer, may be lost.
                self.suspect(peer, now)
            elif silence >= quiet:
                link.queried_at = now
                send_query(state, peer, link)

    def _set_deadline(self) -> None:
        first = next(iter(self._suspects.values()), NEVER)
        self.deadline = min(self._next_check, first + _ANSWER_TIMEOUT, *self._doubted.values())

    def on_query(self, sender: PeerId, query: Neighbor, now: Time) -> None:
        """NEIGHBOR as a query: answer a neighbour with our list (E11).

        A sender that isn't a neighbour but behaves as one becomes one if there is room, else it
        gets DISCONNECT (E12).
        """
        state = self._state
        link = state.active.get(sender)
        if link is not None:
            link.update(query, now)
            brief = query.numbers_only
            peers = [] if brief else [peer for peer in state.active if peer != sender]
            state.send_neighbor(sender, NeighborRole.LIST, link.kind, *peers, numbers_only=brief)
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
        if answer.numbers_only:
            return
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
        self._next_check = NEVER
        self._notified.clear()
        self._doubted.clear()
        self._suspects.clear()
