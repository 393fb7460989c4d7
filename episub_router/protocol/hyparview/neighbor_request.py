"""Neighbour requests: a view that is too small asks passive peers for links (E09, E17)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.tables import take
from episub_router.protocol.types import NEVER, PeerId, Time

NEIGHBOR_TIMEOUT = 5.0
"""Seconds until a request counts as refused. Ours: a dial, an RTT measurement and a round trip."""

JOIN_GROW_INTERVAL = 1.5
"""Seconds, in place of `grow_interval` until the view was full once, where there are near links.
Measured: of many that ask at a time the nearest comes first. After five minutes 1,000 nodes with
uniform latencies have random links of 56 ms in place of 68, and a flood takes 89 ms, not 96."""

REFUSED_BACKOFF = 120.0
"""Seconds until a peer that refused is asked again. Measured: a search for the last links asks a
dozen others meanwhile; with 30 s it asks the nearest few again and again."""

REFUSED_BACKOFF_IN_NEED = 10.0
"""The same while the node has fewer than C_rand links. Ours: as often as `REQUEST_LIMIT` lets one
peer ask in the long run. In a small overlay, those that refused once may be all there is."""

_MAX_REFUSED = 64
"""Peers remembered that refused."""

_MAX_STRETCH = 8
"""Grow intervals that the period of a fruitless search for the last link grows to."""

_CALM = 4
"""How much longer periods of other upkeep get (`OverlayState.calm`) before those of a fruitless
search grow further, however many links are missing beyond the C_rand. Ours: by then it has asked a
dozen peers. Measured: of 20 hosts at rest one with five links dialled 36 times in five minutes."""

_MAX_STRETCH_IF_SEVERAL = 2
"""The same before that, while more than one link is missing."""


class NeighborRequests(Procedure):
    """Grows the active view to A with NEIGHBOR requests, nearest candidates first."""

    __slots__ = ("_full", "_growth", "_refused", "_rejoin_if_alone", "_requests", "_stretch")

    def __init__(self, state: OverlayState, rejoin_if_alone: Callable[[Time], None]) -> None:
        """`rejoin_if_alone` is called when requests have ended."""
        super().__init__(state)
        self._rejoin_if_alone = rejoin_if_alone
        self._requests: dict[PeerId, Time] = {}
        """Requests in flight, with the time at which each counts as refused."""
        self._refused: dict[PeerId, Time] = {}
        """When a peer refused that is not asked again for a while."""
        self._stretch = 1
        self._full = False
        """Whether the view has ever been full."""
        self._growth = NEVER
        """When the size of the view is checked next."""

    def start(self, now: Time) -> None:
        self._schedule(now)

    @property
    def in_progress(self) -> bool:
        return bool(self._requests)

    def has_asked(self, peer: PeerId) -> bool:
        return peer in self._requests

    def grow(self, now: Time) -> None:
        """Ask as many passive peers as links, or random links, are missing (E09, E17)."""
        state = self._state
        missing = max(
            state.params.active_size - len(state.active),
            state.params.random_links - state.active.count(LinkKind.RANDOM),
        ) - len(self._requests)
        if missing <= 0:
            return
        self._refused = {
            peer: at for peer, at in self._refused.items() if now - at < REFUSED_BACKOFF
        }
        for peer in self._candidates(self._kind_missing(), now)[:missing]:
            self._requests[peer] = NEVER
            state.when_connected(peer, partial(self._request, peer), now)

    def _candidates(self, kind: LinkKind, now: Time) -> list[PeerId]:
        """Passive peers to ask: for a near link the nearest first, else in random order."""
        state = self._state
        backoff = REFUSED_BACKOFF_IN_NEED if state.is_in_need else REFUSED_BACKOFF
        peers = [
            peer
            for peer in state.passive
            if peer not in self._requests and now - self._refused.get(peer, -NEVER) >= backoff
        ]
        state.rng.shuffle(peers)
        if kind is LinkKind.RANDOM:
            return peers

        def distance(peer: PeerId) -> float:
            rtt = state.passive.rtt(peer)
            return NEVER if rtt is None else rtt.mean

        return sorted(peers, key=distance)

    def _request(self, peer: PeerId, up: bool, now: Time) -> None:
        state = self._state
        if peer not in self._requests:
            return
        if not up or peer in state.active:
            take(self._requests, peer)
            return
        state.ask_for_link(peer, self._kind_missing(), now)
        self._requests[peer] = now + state.with_dial_time(NEIGHBOR_TIMEOUT)
        self.deadline = min(self.deadline, self._requests[peer])

    def _kind_missing(self) -> LinkKind:
        params = self._state.params
        near = params.near_links and (
            self._state.active.count(LinkKind.RANDOM) >= params.random_links
        )
        return LinkKind.NEAR if near else LinkKind.RANDOM

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """DISCONNECT to a request of ours, or no answer in time: ask the next peer.

        A node that has its C_rand links waits for the next period, as each request may cost both
        sides a connection.
        """
        if take(self._requests, peer) is None:
            return
        self.back_off(peer, now)
        self._state.release(peer)
        self.ask_others(now)

    def ask_others(self, now: Time) -> None:
        """Ask others at once, if C_rand links are still missing."""
        if self._state.is_in_need:
            self.grow(now)

    def back_off(self, peer: PeerId, now: Time) -> None:
        """`peer` refused a link or ended one: ask others for a while."""
        self._refused.pop(peer, None)
        self._refused[peer] = now
        while len(self._refused) > _MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def on_link(self, peer: PeerId) -> None:
        """`peer` is a neighbour now, whichever side asked."""
        take(self._requests, peer)
        take(self._refused, peer)

    def on_link_lost(self, now: Time) -> None:
        """Ask for a replacement at once, and again after short periods (E17)."""
        self._stretch = 1
        self.grow(now)
        self._schedule(now)

    def fire(self, now: Time) -> None:
        for peer in [peer for peer, until in self._requests.items() if until <= now]:
            self.on_refusal(peer, now)
        if self._growth <= now:
            self.grow(now)
            self._schedule(now)
        else:
            self._set_deadline()
        self._rejoin_if_alone(now)

    def _schedule(self, now: Time) -> None:
        """Check again after a period that grows while C_rand links stand; a node that joins an
        overlay with near links starts with a shorter one."""
        params = self._state.params
        links = len(self._state.active)
        self._full = self._full or links >= params.active_size
        early = params.near_links and not self._full
        period = params.grow_interval
        if early:
            period = min(period, JOIN_GROW_INTERVAL)
        if self._state.is_in_need:
            self._stretch = 1
        else:
            calm = self._state.calm(now) / _CALM
            last_link = links + 1 >= params.active_size
            most = _MAX_STRETCH if last_link or calm > 1 else _MAX_STRETCH_IF_SEVERAL
            longest = most * params.grow_interval
            self._stretch = min(2 * self._stretch, max(1, round(longest / period)))
            period *= max(1.0, calm)
        self._growth = now + self._state.jittered(period * self._stretch)
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.deadline = min(self._growth, *self._requests.values(), NEVER)

    def stop(self) -> None:
        super().stop()
        self._requests.clear()
        self._refused.clear()
        self._full = False
        self._growth = NEVER
