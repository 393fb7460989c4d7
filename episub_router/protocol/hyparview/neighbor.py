"""Neighbour requests: who is asked for a link, and who that asks gets one (E09, E10, E17)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TypeAlias

from episub_router.protocol.effects import DropReason, MeasureRtt
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.proximity import farther_neighbor
from episub_router.protocol.hyparview.trickle import Trickle
from episub_router.protocol.messages import Disconnect, Join, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time
from episub_router.util.bounded import put_last

NEIGHBOR_TIMEOUT = 5.0
"""Seconds until a request counts as refused. Chosen: a dial, an RTT measurement and a round trip.
"""

GROW_INTERVAL = 2.5
GROW_INTERVAL_MOST = 40.0
"""Seconds between two rounds of requests while links are missing. Measured: of many nodes that ask
at a time the nearest comes first."""

REFUSED_BACKOFF = 120.0
"""Seconds until a peer that refused is asked again to fill the view. Measured: a search for the
last links asks a dozen others meanwhile; with 30 s it asks the nearest few again and again."""

REFUSED_BACKOFF_IN_NEED = 10.0
"""The same while the node has fewer than C_rand links. Chosen: as often as one peer may ask in the
long run (`rate_limits`). In a small overlay, those that refused once may be all there is."""

MAX_REFUSED = 64
"""Peers remembered that refused."""

MAX_MEASURING = 64
"""Requests that wait for an RTT at once."""


class LinkPurpose(Enum):
    """What a link is asked for."""

    GROW = "grow"
    """To have A of them (E09)."""
    RING = "ring"
    """The peer would be next on a ring."""
    NEAR = "near"
    """The peer would replace a farther neighbour (E18)."""
    RECONNECT = "reconnect"
    """It was a neighbour whose link failed (E02). It gets a JOIN with TTL 0."""


Outcome: TypeAlias = Callable[[PeerId, LinkPurpose, bool, Time], bool]
"""Called with the peer that was asked, what for, whether it is a neighbour now, and `now`; returns
whether the connection is still needed."""


class Neighbors:
    """All requests of this node, at most one to a peer, and its answers to others'."""

    __slots__ = (
        "_measuring",
        "_on_outcome",
        "_overlay",
        "_refused_at",
        "_requests",
        "_trickle",
        "_unanswered",
    )

    def __init__(self, overlay: Overlay, on_outcome: Outcome) -> None:
        self._overlay = overlay
        self._on_outcome = on_outcome
        self._requests: dict[PeerId, LinkPurpose] = {}
        """Peers that are dialled, or were asked. Bound: A, the sides of rings, and three more."""
        self._refused_at: dict[PeerId, Time] = {}
        """When a peer refused a link, ended one, or didn't answer."""
        self._unanswered: dict[PeerId, None] = {}
        """Peers that were asked and haven't answered in time."""
        self._measuring: dict[PeerId, Neighbor] = {}
        """Requests of others that wait for an RTT."""
        self._trickle = Trickle(overlay.rng, GROW_INTERVAL, GROW_INTERVAL_MOST)

    # Asking

    @property
    def in_progress(self) -> bool:
        return bool(self._requests)

    def has_asked(self, peer: PeerId) -> bool:
        return peer in self._requests

    def has_refused(self, peer: PeerId, within: float, now: Time) -> bool:
        """Whether `peer` has refused `within` so many seconds."""
        return now - self._refused_at.get(peer, -NEVER) < within

    def ask(self, peer: PeerId, purpose: LinkPurpose, kind: LinkKind, now: Time) -> None:
        """Ask `peer` for a link, over a new connection if need be."""
        if peer not in self._requests and peer not in self._overlay.active:
            self._requests[peer] = purpose
            self._overlay.when_connected(peer, partial(self._send_request, peer, kind), now)

    def _send_request(self, peer: PeerId, kind: LinkKind, up: bool, now: Time) -> None:
        overlay = self._overlay
        purpose = self._requests.get(peer)
        if not up:
            self.on_refusal(peer, now)
        elif purpose is LinkPurpose.RECONNECT:
            overlay.send(peer, Join(overlay.me, 0))
        elif purpose is not None:
            overlay.send_neighbor(peer, NeighborRole.REQUEST, kind)
        if up and purpose is not None:
            timeout = overlay.with_dial_time(NEIGHBOR_TIMEOUT)
            overlay.set_timer(Timer.REQUEST, now + timeout, peer)

    def on_timeout(self, peer: PeerId, now: Time) -> None:
        """`peer` hasn't answered in time."""
        self.on_refusal(peer, now)
        put_last(self._unanswered, peer, None, MAX_REFUSED)

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """`peer` has refused, or can't be reached."""
        purpose = self._requests.pop(peer, None)
        if purpose is not None:
            self.back_off(peer, now)
            self._overlay.cancel_timer(Timer.REQUEST, peer)
            if not self._on_outcome(peer, purpose, False, now):
                self._overlay.release(peer)

    def back_off(self, peer: PeerId, now: Time) -> None:
        """Ask others for a while: `peer` has refused a link or ended one."""
        put_last(self._refused_at, peer, now, MAX_REFUSED)
        self._unanswered.pop(peer, None)

    def on_link(self, peer: PeerId, now: Time) -> None:
        """`peer` is a neighbour now, whichever side asked."""
        self._refused_at.pop(peer, None)
        self._unanswered.pop(peer, None)
        purpose = self._requests.pop(peer, None)
        if purpose is not None:
            self._overlay.cancel_timer(Timer.REQUEST, peer)
            self._on_outcome(peer, purpose, True, now)

    def on_accept(self, sender: PeerId, accept: Neighbor, join_open: bool, now: Time) -> None:
        """ACCEPT: it counts from a peer that was asked by name, and, while a JOIN of ours is open,
        until C_rand links stand (E06, E09). An answer that comes late fills a gap."""
        overlay = self._overlay
        params = overlay.params
        link = overlay.active.get(sender)
        purpose = self._requests.get(sender)
        links = len(overlay.active)
        if link is not None:
            link.update(accept, now)
        elif (
            (purpose is LinkPurpose.RING and overlay.make_room(sender, in_need=False))
            or (purpose is not None and links < params.active_bound)
            or (sender in self._unanswered and links < params.active_size)
            or (join_open and links < params.random_links)
        ):
            overlay.add_link(sender, accept.kind, now, accept)
        else:
            overlay.drop(sender, DropReason.UNSOLICITED)
            overlay.send(sender, Disconnect())
            overlay.release(sender)

    # Growing

    def start(self, now: Time) -> None:
        self._overlay.set_timer(Timer.GROW, self._trickle.start(now))

    def on_timer(self, now: Time) -> None:
        """Ask again after a period that grows while C_rand links stand."""
        self.grow(now)
        due = self._trickle.start(now) if self._overlay.is_in_need else self._trickle.next(now)
        if len(self._overlay.active) < self._overlay.params.active_size:
            self._overlay.set_timer(Timer.GROW, due)

    def on_link_lost(self, now: Time) -> None:
        """Ask for a replacement at once, and again after short periods (E17)."""
        self.grow(now)
        self.start(now)

    def grow(self, now: Time) -> None:
        """Ask as many passive peers as links, or random links, are missing: for near links the
        nearest first (E09, E17)."""
        overlay = self._overlay
        params, active = overlay.params, overlay.active
        random_missing = params.random_links - active.count(LinkKind.RANDOM)
        if params.ring_links == params.random_links:
            random_missing = 0  # Rings find them.
        missing = max(params.active_size - len(active), random_missing) - len(self._requests)
        if missing <= 0:
            return
        kind = LinkKind.NEAR if params.near_links and random_missing <= 0 else LinkKind.RANDOM
        backoff = REFUSED_BACKOFF_IN_NEED if overlay.is_in_need else REFUSED_BACKOFF
        peers = [
            peer
            for peer in overlay.passive
            if peer not in self._requests and not self.has_refused(peer, backoff, now)
        ]
        overlay.rng.shuffle(peers)
        if kind is LinkKind.NEAR:
            peers.sort(key=self._passive_distance)
        for peer in peers[:missing]:
            self.ask(peer, LinkPurpose.GROW, kind, now)

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
        may_be_near = len(active) < params.active_size and not overlay.is_next_on_a_ring(sender)
        if link is not None:
            link.update(request, now)
            overlay.send_neighbor(sender, NeighborRole.ACCEPT, link.kind)
        elif overlay.make_room(sender, in_need=in_need):
            # Room that our random links need is not given to a near one.
            short = active.count(LinkKind.RANDOM) < params.random_links
            full = active.count(LinkKind.NEAR) >= params.near_links
            near = may_be_near and request.kind is LinkKind.NEAR and not (short and full)
            self._accept(sender, LinkKind.NEAR if near else LinkKind.RANDOM, request, now)
        elif sender in self._measuring:
            self._measuring[sender] = request
        elif params.near_links and len(self._measuring) < MAX_MEASURING:
            self._measuring[sender] = request
            overlay.emit(MeasureRtt(sender))
        else:
            self._reject(sender)

    def on_rtt(self, peer: PeerId, rtt: float | None, now: Time) -> bool:
        """The round trip to a peer that asked: it gets the place of a farther near neighbour, or
        is rejected (E10). True if it got one."""
        overlay = self._overlay
        request = self._measuring.pop(peer, None)
        if request is None or peer in overlay.active:
            return False
        if rtt is not None and len(overlay.active) < overlay.params.active_size:
            self.on_request(peer, request, now)
            return False
        victim = None if rtt is None else farther_neighbor(overlay, rtt)
        if victim is None:
            self._reject(peer)
            return False
        overlay.evict(victim)
        self._accept(peer, LinkKind.NEAR, request, now)
        return True

    def _accept(self, peer: PeerId, kind: LinkKind, request: Neighbor, now: Time) -> None:
        self._overlay.add_link(peer, kind, now, request)
        self._overlay.send_neighbor(peer, NeighborRole.ACCEPT, kind)

    def _reject(self, peer: PeerId) -> None:
        self._overlay.drop(peer, DropReason.VIEW_FULL)
        self._overlay.send(peer, Disconnect())
        self._overlay.release(peer)

    def on_peer_down(self, peer: PeerId, now: Time) -> None:
        """The connection to `peer` is gone."""
        self._measuring.pop(peer, None)
        if peer in self._requests:
            self.on_refusal(peer, now)

    def clear(self) -> None:
        self._requests.clear()
        self._refused_at.clear()
        self._unanswered.clear()
        self._measuring.clear()
