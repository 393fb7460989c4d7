"""Asking for links, granting and refusing them (E09, E10, E17).

`Asking` grows a view that is too small; `Granting` answers those who ask.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DownReason, DropReason, MeasureRtt
from episub_router.protocol.messages import Disconnect, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.optimizing import farther_neighbor
from episub_router.protocol.overlay import Overlay
from episub_router.protocol.types import NEVER, Group, PeerId, Time

_MOST_BACKOFF = 8
"""Grow intervals that a fruitless search for the last link is stretched to."""

_BACKOFF_IF_SEVERAL = 2
"""The same while the C_rand links stand and more than one link is missing."""


class Asking:
    """Grows the active view to A with NEIGHBOR requests, nearest candidates first."""

    __slots__ = ("_full", "_growth", "_overlay", "_refused", "_requests", "_stretch", "deadline")

    def __init__(self, overlay: Overlay) -> None:
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


class Granting:
    """Decides on the NEIGHBOR requests of others (E10)."""

    __slots__ = ("_measuring", "_overlay")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._measuring: dict[PeerId, Neighbor] = {}
        """Requests that wait for an RTT."""

    def on_request(self, sender: PeerId, request: Neighbor, now: Time) -> None:
        """NEIGHBOR: room, need or nearness decide, in this order (E10)."""
        overlay = self._overlay
        params = overlay.params
        size = len(overlay.active)
        link = overlay.active.get(sender)
        if link is not None:
            link.update(request, now)
            overlay.tell(sender, NeighborRole.ACCEPT, link.kind)
        elif size < params.active_size:
            # Room that our random links need is not given to a near one.
            short = overlay.active.count(LinkKind.RANDOM) < params.random_links
            full = overlay.active.count(LinkKind.NEAR) >= params.near_links
            self._admit(sender, LinkKind.RANDOM if short and full else request.kind, request, now)
        elif (
            self._in_need(request)
            and size < params.active_bound
            and self._is_first_in_need(group := overlay.group_of(sender), sender)
        ):
            self._admit(sender, LinkKind.RANDOM, request, now)
            overlay.active.note_need(sender, group)
        elif sender in self._measuring:
            self._measuring[sender] = request
        elif params.near_links and len(self._measuring) < params.max_waiting:
            self._measuring[sender] = request
            overlay.emit(MeasureRtt(sender))
        else:
            self._reject(sender)

    def _in_need(self, request: Neighbor) -> bool:
        """Whether the asker lacks links, or the random ones among them."""
        least = self._overlay.params.random_links
        return request.links < least or (
            request.kind is LinkKind.RANDOM and request.random_links < least
        )

    def _is_first_in_need(self, group: Group | None, sender: PeerId) -> bool:
        """Need can't be checked: it gets one link beyond A for each group of peers."""
        active = self._overlay.active
        if group is not None and any(link.need_of == group for _, link in active.items()):
            self._overlay.drop(sender, DropReason.NEED_REPEATED)
            return False
        return True

    def on_rtt(self, peer: PeerId, rtt: float | None, now: Time) -> None:
        """The round trip to a peer that asked: is it nearer than a near neighbour? (E10)"""
        request = self._measuring.pop(peer, None)
        if request is None or peer in self._overlay.active:
            return
        if rtt is not None and len(self._overlay.active) < self._overlay.params.active_size:
            self.on_request(peer, request, now)
            return
        victim = None if rtt is None else farther_neighbor(self._overlay, rtt)
        if victim is None:
            self._reject(peer)
        else:
            self._overlay.drop_link(victim, DownReason.EVICTED, tell=True, remember=True)
            self._overlay.found_nearer = True
            self._admit(peer, LinkKind.NEAR, request, now)

    def _admit(self, peer: PeerId, kind: LinkKind, request: Neighbor, now: Time) -> None:
        self._overlay.add_link(peer, kind, now, request)
        self._overlay.tell(peer, NeighborRole.ACCEPT, kind)

    def _reject(self, peer: PeerId) -> None:
        self._overlay.drop(peer, DropReason.VIEW_FULL)
        self._overlay.send(peer, Disconnect())
        self._overlay.release(peer)

    def on_peer_down(self, peer: PeerId) -> None:
        self._measuring.pop(peer, None)

    def stop(self) -> None:
        self._measuring.clear()
