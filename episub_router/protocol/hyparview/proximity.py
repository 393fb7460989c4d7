"""Optimisation: trading far links for near ones (E10, E18).

Links remember what they were made for. The C_rand random links are never given up for
nearness; what may be: near links, and random links beyond C_rand that both ends have.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DownReason, MeasureRtt
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import Link, pick_some
from episub_router.protocol.messages import LinkKind, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time


class Proximity:
    """Samples neighbours' RTTs, and asks the nearest passive peer to replace a far one."""

    __slots__ = ("_candidate", "_overlay", "_victim", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._candidate: PeerId | None = None
        """The peer that was asked in this period, and whom it is to replace."""
        self._victim: PeerId | None = None
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        if self._overlay.params.near_links:
            self._schedule(now)

    def _schedule(self, now: Time) -> None:
        params = self._overlay.params
        rest = self._overlay.all_near
        interval = params.optimize_rest_interval if rest else params.optimize_interval
        self.deadline = now + self._overlay.jittered(interval)

    def asked(self, peer: PeerId) -> bool:
        return peer == self._candidate

    def fire(self, now: Time) -> None:
        overlay = self._overlay
        params = overlay.params
        self._schedule(now)
        self._forget()
        unmeasured = [peer for peer, link in overlay.active.items() if link.rtt is None]
        sampled = pick_some(overlay.rng, unmeasured, params.first_rtt_samples)
        for peer in sampled or pick_some(overlay.rng, list(overlay.active), params.rtt_samples):
            overlay.emit(MeasureRtt(peer))
        nearest = min(
            ((rtt.mean, peer) for peer, rtt in overlay.passive.measured()),
            key=lambda entry: entry[0],
            default=None,
        )
        if nearest is None or len(overlay.active) < params.active_size:
            return
        mean, candidate = nearest
        victim = farther_neighbor(overlay, mean)
        if victim is not None:
            self._candidate, self._victim = candidate, victim
            overlay.when_connected(candidate, partial(self._ask, candidate), now)

    def _ask(self, candidate: PeerId, up: bool, now: Time) -> None:
        if candidate != self._candidate:
            return
        if up:
            self._overlay.tell(candidate, NeighborRole.REQUEST, LinkKind.NEAR)
        else:
            self._forget()

    def on_link(self, peer: PeerId) -> None:
        """`peer` is a neighbour now: if we asked for it, the one it replaces goes."""
        if peer != self._candidate:
            return
        overlay = self._overlay
        victim = self._victim
        link = overlay.active.get(victim)
        self._forget()
        if link is None or len(overlay.active) <= overlay.params.active_size:
            return
        if link.kind is LinkKind.NEAR or _spare_random(overlay):
            overlay.drop_link(victim, DownReason.EVICTED, tell=True, remember=True)
            overlay.found_nearer = True

    def on_refusal(self, peer: PeerId) -> None:
        """The nearest passive peer doesn't want us: it is as good as unmeasured for now."""
        if peer == self._candidate:
            self._overlay.passive.forget_rtt(peer)
            self._overlay.release(peer)
            self._forget()

    def _forget(self) -> None:
        self._candidate = self._victim = None

    def stop(self) -> None:
        self._forget()
        self.deadline = NEVER


def _spare_random(overlay: OverlayState) -> bool:
    return overlay.active.count(LinkKind.RANDOM) > overlay.params.random_links


def farther_neighbor(overlay: OverlayState, rtt: float) -> PeerId | None:
    """The farthest neighbour that a peer at `rtt` seconds may replace, if any (E10, E18).

    It must be farther by the factor alpha and by the least gain that counts, must have enough
    links of its own, random ones and in all, and must not be one of our C_rand random links.
    """
    params = overlay.params
    spare_random = _spare_random(overlay)

    distance = overlay.distance

    def replaceable(link: Link) -> bool:
        if link.kind is LinkKind.NEAR:
            spare = link.random_links >= params.random_links
        else:
            spare = spare_random and link.random_links > params.random_links
        return (
            spare
            and link.links >= params.active_size
            and distance(link) > params.rtt_advantage * rtt
            and distance(link) - rtt >= params.rtt_min_gain
        )

    farther = [(distance(link), peer) for peer, link in overlay.active.items() if replaceable(link)]
    return max(farther, key=lambda entry: entry[0])[1] if farther else None
