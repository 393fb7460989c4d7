"""NEIGHBOR requests: who is asked for a link, and who that asks gets one (E09, E10, E17)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from episub_router.protocol.effects import DropReason, MeasureRtt
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import Join, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time
from episub_router.util.bounded import put_last

NEIGHBOR_TIMEOUT = 5.0
"""Seconds until a request counts as refused. Chosen: a dial, an RTT measurement, a round trip."""

REFUSED_BACKOFF = 120.0
"""Seconds until a peer that refused is asked again. Measured: a search for the last links asks a
dozen others meanwhile; with 30 s, the nearest few again and again."""

REFUSED_BACKOFF_IN_NEED = 10.0
"""The same with fewer than C_rand links. Chosen: as often as one peer may ask (`machine`)."""

MAX_REFUSED = 64
"""Peers remembered that refused."""

MAX_MEASURING = 64
"""Requests that wait for an RTT at once."""


class Neighbors:
    """All requests of this node, at most one to a peer, and its answers to others'."""

    __slots__ = ("_measuring", "_on_refused", "_overlay", "_refused_at", "requests")

    def __init__(self, overlay: Overlay, on_refused: Callable[[PeerId, Time], None]) -> None:
        """`on_refused` is called with a peer that was asked and has refused, or isn't there."""
        self._overlay = overlay
        self._on_refused = on_refused
        self.requests: dict[PeerId, None] = {}
        """Peers dialled or asked. Bound: A, the sides of rings, and a few more."""
        self._refused_at: dict[PeerId, Time] = {}
        """When a peer refused a link, ended one, or didn't answer."""
        self._measuring: dict[PeerId, Neighbor] = {}
        """Requests of others that wait for an RTT."""

    # Asking

    def has_refused(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` has refused of late: it isn't asked then."""
        backoff = REFUSED_BACKOFF_IN_NEED if self._overlay.is_in_need else REFUSED_BACKOFF
        return now - self._refused_at.get(peer, -NEVER) < backoff

    def ask(self, peer: PeerId, kind: LinkKind | None, now: Time) -> None:
        """Ask `peer` for a link of this kind, over a new connection if need be; without a kind by a
        JOIN with TTL 0, which gets one from a full view, too."""
        if peer not in self.requests and peer not in self._overlay.active:
            self.requests[peer] = None
            self._overlay.when_connected(peer, partial(self._send_request, peer, kind), now)

    def _send_request(self, peer: PeerId, kind: LinkKind | None, up: bool, now: Time) -> None:
        overlay = self._overlay
        if not up:
            self.on_refusal(peer, now)
        if peer not in self.requests:
            return
        if kind is None:
            overlay.send(peer, Join(overlay.me, 0))
        else:
            on_ring = overlay.is_next_on_a_ring(peer)
            overlay.send_neighbor(peer, NeighborRole.REQUEST, LinkKind.RANDOM if on_ring else kind)
        timeout = overlay.with_dial_time(NEIGHBOR_TIMEOUT)
        overlay.set_timer(Timer.REQUEST, now + timeout, peer)

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """`peer` has refused, ended the link, or can't be reached: ask others for a while."""
        if peer in self.requests:
            self._end_request(peer)
            self.back_off(peer, now)
            self._on_refused(peer, now)

    def back_off(self, peer: PeerId, now: Time) -> None:
        put_last(self._refused_at, peer, now, MAX_REFUSED)

    def _end_request(self, peer: PeerId) -> None:
        del self.requests[peer]
        self._overlay.cancel_timer(Timer.REQUEST, peer)

    def on_link(self, peer: PeerId) -> bool:
        """`peer` is a neighbour now, whichever side asked; returns whether this one did."""
        self._refused_at.pop(peer, None)
        asked = peer in self.requests
        if asked:
            self._end_request(peer)
        return asked

    def on_accept(self, sender: PeerId, accept: Neighbor, join_open: bool, now: Time) -> None:
        """ACCEPT: it counts from a peer that was asked, and, while a JOIN of ours is open, until
        C_rand links stand (E06, E09)."""
        overlay = self._overlay
        link = overlay.active.get(sender)
        has_room = len(overlay.active) < overlay.params.active_bound
        if link is not None:
            link.update(accept, now)
        elif (
            sender in self.requests and (has_room or overlay.make_room(sender, in_need=False))
        ) or (join_open and overlay.is_in_need):
            overlay.add_link(sender, accept.kind, now, accept)
        else:
            overlay.reject(sender, DropReason.UNSOLICITED)

    # Growing

    def on_timer(self, now: Time) -> None:
        """Ask again after a period that grows while C_rand links stand."""
        overlay = self._overlay
        self.grow(now)
        if overlay.is_in_need:
            overlay.start_rounds(Timer.GROW, now)
        elif not overlay.is_full:
            overlay.next_round(Timer.GROW, now)

    def on_link_lost(self, now: Time) -> None:
        """Ask for a replacement at once, and again after short periods (E17)."""
        self.grow(now)
        self._overlay.start_rounds(Timer.GROW, now)

    def grow(self, now: Time) -> None:
        """Ask as many passive peers as links are missing, for near ones the nearest (E09, E17)."""
        overlay = self._overlay
        params, active = overlay.params, overlay.active
        random_missing = params.random_links - active.count(LinkKind.RANDOM)
        if params.ring_links == params.random_links:
            # Rings find them, but where one peer has two places.
            random_missing = min(random_missing, active.count(LinkKind.NEAR) - params.near_links)
        missing = max(params.active_size - len(active), random_missing) - len(self.requests)
        if missing <= 0:
            return
        kind = LinkKind.NEAR if params.near_links and random_missing <= 0 else LinkKind.RANDOM
        passive = [peer for peer in overlay.passive if peer not in self.requests]
        peers = [peer for peer in passive if not self.has_refused(peer, now)]
        overlay.rng.shuffle(peers)
        if kind is LinkKind.NEAR:
            peers.sort(key=self._passive_distance)
        for peer in peers[:missing]:
            self.ask(peer, kind, now)

    def _passive_distance(self, peer: PeerId) -> float:
        rtt = self._overlay.passive.rtt(peer)
        return NEVER if rtt is None else rtt.mean

    # Answering

    def on_request(self, sender: PeerId, request: Neighbor, now: Time) -> None:
        """REQUEST: room, need or nearness decide, in this order (E10)."""
        overlay = self._overlay
        params, active = overlay.params, overlay.active
        link = active.get(sender)
        in_need = request.links < params.random_links or (
            request.kind is LinkKind.RANDOM and request.random_links < params.random_links
        )
        may_be_near = not overlay.is_full and not overlay.is_next_on_a_ring(sender)
        if link is not None:
            link.update(request, now)
            overlay.send_neighbor(sender, NeighborRole.ACCEPT, link.kind)
        elif overlay.make_room(sender, in_need=in_need):
            # A near link gets no room that our random ones need.
            short = active.count(LinkKind.RANDOM) < params.random_links
            full = active.count(LinkKind.NEAR) >= params.near_links
            near = may_be_near and request.kind is LinkKind.NEAR and not (short and full)
            overlay.accept(sender, LinkKind.NEAR if near else LinkKind.RANDOM, now, request)
        elif sender in self._measuring:
            self._measuring[sender] = request
        elif params.near_links and len(self._measuring) < MAX_MEASURING:
            self._measuring[sender] = request
            overlay.effects.append(MeasureRtt(sender))
        else:
            overlay.reject(sender, DropReason.VIEW_FULL)

    def on_rtt(self, peer: PeerId, rtt: float | None, now: Time) -> bool:
        """A peer that asked gets the place of a farther neighbour, or is rejected (E10). True if it
        got one."""
        overlay = self._overlay
        request = self._measuring.pop(peer, None)
        if request is None or peer in overlay.active:
            return False
        if rtt is not None and not overlay.is_full:
            self.on_request(peer, request, now)
            return False
        victim = None if rtt is None else farther_neighbor(overlay, rtt)
        if victim is None:
            overlay.reject(peer, DropReason.VIEW_FULL)
            return False
        overlay.evict(victim)
        overlay.accept(peer, LinkKind.NEAR, now, request)
        return True

    def on_peer_down(self, peer: PeerId, now: Time) -> None:
        self._measuring.pop(peer, None)
        self.on_refusal(peer, now)


def farther_neighbor(overlay: Overlay, rtt: float) -> PeerId | None:
    """The farthest neighbour that a peer at `rtt` seconds may replace, if any (E10, E18): farther
    by the factor alpha and the least gain, with enough links of its own, and not one to keep."""
    params = overlay.params
    kept = overlay.kept_links()
    farthest, most = None, 0.0
    for peer, link in overlay.active.items():
        distance = link.distance
        least = params.random_links + (link.kind is LinkKind.RANDOM)
        if (
            distance > max(most, params.rtt_advantage * rtt)
            and distance - rtt >= params.rtt_min_gain
            and link.random_links >= least
            and link.links >= params.active_size
            and peer not in kept
        ):
            farthest, most = peer, distance
    return farthest
