"""Proximity: far links are replaced by near ones, as in GoCast (E10, E18).

Each link is random or near. The C_rand random links are never given up for proximity; near
links are, and random links beyond C_rand that both ends have.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DownReason, MeasureRtt
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.rings.links import kept_links
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import Link, pick_some
from episub_router.protocol.messages import LinkKind
from episub_router.protocol.types import NEVER, PeerId, Time

_REST_INTERVAL = 60.0
"""Seconds, in place of `optimize_interval` where all neighbours are near. Ours."""

_RTT_SAMPLES = 1
"""Neighbours pinged in one period, so each within about 70 s. Ours."""

_FIRST_RTT_SAMPLES = 3
"""Neighbours pinged in one period while some never were. Ours: a ping costs 5 ms of CPU, and a
host that is joining has none to spare."""


class Proximity(Procedure):
    """Samples neighbours' RTTs, and asks the nearest passive peer to replace a far neighbour."""

    __slots__ = ("_candidate", "_looked_at", "_victim")

    def __init__(self, state: OverlayState) -> None:
        super().__init__(state)
        self._candidate: PeerId | None = None
        """The peer asked in this period."""
        self._victim: PeerId | None = None
        """The neighbour that it is to replace."""
        self._looked_at = -NEVER
        """When RTTs were last measured."""

    def start(self, now: Time) -> None:
        if self._state.params.near_links:
            self._schedule(now)

    def _schedule(self, now: Time) -> None:
        state = self._state
        interval = _REST_INTERVAL if state.all_near else state.params.optimize_interval
        self.deadline = now + state.jittered(interval)

    def has_asked(self, peer: PeerId) -> bool:
        return peer == self._candidate

    def fire(self, now: Time) -> None:
        state = self._state
        self._schedule(now)
        if state.all_near and state.may_rest(self._looked_at, _REST_INTERVAL, now):
            return
        self._looked_at = now
        self._forget()
        unmeasured = [peer for peer, link in state.active.items() if link.rtt is None]
        sampled = pick_some(state.rng, unmeasured, _FIRST_RTT_SAMPLES)
        for peer in sampled or pick_some(state.rng, list(state.active), _RTT_SAMPLES):
            state.emit(MeasureRtt(peer))
        nearest = min(
            ((rtt.mean, peer) for peer, rtt in state.passive.measured()),
            key=lambda entry: entry[0],
            default=None,
        )
        if nearest is None or len(state.active) < state.params.active_size:
            return
        mean, candidate = nearest
        victim = farther_neighbor(state, mean, now)
        if victim is not None:
            self._candidate, self._victim = candidate, victim
            state.when_connected(candidate, partial(self._ask, candidate), now)

    def _ask(self, candidate: PeerId, up: bool, now: Time) -> None:
        if candidate != self._candidate:
            return
        if up:
            self._state.ask_for_link(candidate, LinkKind.NEAR, now)
        else:
            self._forget()

    def on_link(self, peer: PeerId) -> None:
        """`peer` is a neighbour now: if we asked for it, drop the one that it replaces."""
        if peer != self._candidate:
            return
        state = self._state
        victim = self._victim
        link = state.active.get(victim)
        self._forget()
        if link is None or len(state.active) <= state.params.active_size:
            return
        if link.kind is LinkKind.NEAR or _has_spare_random_link(state):
            state.drop_link(victim, DownReason.EVICTED, notify=True, remember=True)
            state.found_nearer = True

    def on_refusal(self, peer: PeerId) -> None:
        """The nearest passive peer refused: its RTT counts as unknown, so others come first."""
        if peer == self._candidate:
            self._state.passive.forget_rtt(peer)
            self._state.release(peer)
            self._forget()

    def _forget(self) -> None:
        self._candidate = self._victim = None

    def stop(self) -> None:
        super().stop()
        self._forget()


def _has_spare_random_link(state: OverlayState) -> bool:
    return state.active.count(LinkKind.RANDOM) > state.params.random_links


def farther_neighbor(state: OverlayState, rtt: float, now: Time) -> PeerId | None:
    """The farthest neighbour that a peer at `rtt` seconds may replace, if any (E10, E18).

    It must be farther by the factor alpha and by the least gain that counts, must have enough
    links of its own, random ones and in all, unless it has only been saying so for too long, and
    must be neither proved nor one of our last C_rand random links.
    """
    params = state.params
    proved = kept_links(state)
    spare_random = _has_spare_random_link(state)
    distance = state.distance

    def replaceable(peer: PeerId, link: Link) -> bool:
        random = link.kind is LinkKind.RANDOM
        least = params.random_links + random
        spare = link.random_links >= least and link.links >= params.active_size
        return (
            (spare or state.has_had_time(link, now))
            and (spare_random or not random)
            and distance(link) > params.rtt_advantage * rtt
            and distance(link) - rtt >= params.rtt_min_gain
            and peer not in proved
        )

    farther = [
        (distance(link), peer) for peer, link in state.active.items() if replaceable(peer, link)
    ]
    return max(farther, key=lambda entry: entry[0])[1] if farther else None
