"""Neighbour requests: a view that is too small asks passive peers for links (E09, E17)."""

from __future__ import annotations

from functools import partial

from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import LinkKind, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time

_MOST_BACKOFF = 8
"""Grow intervals that a fruitless search for the last link is stretched to."""

_BACKOFF_IF_SEVERAL = 2
"""The same while the C_rand links stand and more than one link is missing."""


class NeighborRequests:
    """Grows the active view to A with NEIGHBOR requests, nearest candidates first."""

    __slots__ = ("_full", "_growth", "_overlay", "_refused", "_requests", "_stretch", "deadline")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._requests: dict[PeerId, Time] = {}
        """Requests under way, with the time at which each counts as refused."""
        self._refused: dict[PeerId, Time] = {}
        """Until when a peer that refused is not asked again."""
        self._stretch = 1
        self._full = False
        """Whether the view has ever been full."""
        self._growth = NEVER
        """When the view is next looked at."""
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        self._schedule(now)

    @property
    def under_way(self) -> bool:
        return bool(self._requests)

    def asked(self, peer: PeerId) -> bool:
        return peer in self._requests

    def grow(self, now: Time) -> None:
        """Ask as many passive peers as links, or random links, are missing (E09, E17)."""
        overlay = self._overlay
        missing = max(
            overlay.params.active_size - len(overlay.active),
            overlay.params.random_links - overlay.active.count(LinkKind.RANDOM),
        ) - len(self._requests)
        if missing <= 0:
            return
        self._refused = {peer: until for peer, until in self._refused.items() if until > now}
        for peer in self._candidates(self._kind_missing())[:missing]:
            self._requests[peer] = NEVER
            overlay.when_connected(peer, partial(self._request, peer), now)

    def _candidates(self, kind: LinkKind) -> list[PeerId]:
        """Passive peers to ask: for a near link the nearest first, else in random order."""
        overlay = self._overlay
        peers = [
            peer
            for peer in overlay.passive
            if peer not in self._requests and peer not in self._refused
        ]
        overlay.rng.shuffle(peers)
        if kind is LinkKind.RANDOM:
            return peers

        def distance(peer: PeerId) -> float:
            rtt = overlay.passive.rtt(peer)
            return NEVER if rtt is None else rtt.mean

        return sorted(peers, key=distance)

    def _request(self, peer: PeerId, up: bool, now: Time) -> None:
        overlay = self._overlay
        if peer not in self._requests:
            return
        if not up or peer in overlay.active:
            del self._requests[peer]
            return
        overlay.tell(peer, NeighborRole.REQUEST, self._kind_missing())
        self._requests[peer] = now + overlay.patience(overlay.params.neighbor_timeout)
        self.deadline = min(self.deadline, self._requests[peer])

    def _kind_missing(self) -> LinkKind:
        params = self._overlay.params
        near = params.near_links and (
            self._overlay.active.count(LinkKind.RANDOM) >= params.random_links
        )
        return LinkKind.NEAR if near else LinkKind.RANDOM

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """DISCONNECT to a request of ours, or no answer in time: ask the next.

        A node that has its C_rand links doesn't go out of its way for the others: it asks again
        in the next period. Each request may cost both sides a connection.
        """
        if self._requests.pop(peer, None) is None:
            return
        self.back_off(peer, now)
        self._overlay.release(peer)
        self.go_on(now)

    def go_on(self, now: Time) -> None:
        """Ask others at once, if C_rand links are still missing."""
        if len(self._overlay.active) < self._overlay.params.random_links:
            self.grow(now)

    def back_off(self, peer: PeerId, now: Time) -> None:
        """`peer` refused a link or ended one: ask others for a while."""
        self._refused[peer] = now + self._overlay.params.refused_backoff
        while len(self._refused) > self._overlay.params.max_waiting:
            del self._refused[next(iter(self._refused))]

    def on_link(self, peer: PeerId) -> None:
        """`peer` is a neighbour now, whoever asked."""
        self._requests.pop(peer, None)
        self._refused.pop(peer, None)

    def on_link_lost(self, now: Time) -> None:
        """Look for a replacement at once, and often again (E17)."""
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

    def _schedule(self, now: Time) -> None:
        """Look again after a period that grows while C_rand links stand; who joins an overlay
        with near links starts with a shorter one."""
        params = self._overlay.params
        links = len(self._overlay.active)
        self._full = self._full or links >= params.active_size
        early = params.near_links and not self._full
        period = params.grow_interval
        if early:
            period = min(period, params.join_grow_interval)
        if links < params.random_links:
            self._stretch = 1
        else:
            most = _MOST_BACKOFF if links + 1 >= params.active_size else _BACKOFF_IF_SEVERAL
            longest = most * params.grow_interval
            self._stretch = min(2 * self._stretch, max(1, round(longest / period)))
        self._growth = now + self._overlay.jittered(period * self._stretch)
        self._set_deadline()

    def _set_deadline(self) -> None:
        self.deadline = min(self._growth, *self._requests.values(), NEVER)

    def stop(self) -> None:
        self._requests.clear()
        self._refused.clear()
        self._full = False
        self._growth = self.deadline = NEVER
