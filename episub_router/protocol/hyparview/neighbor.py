"""Links up to A, and no more: who is asked for one, and who that asks gets one (E09, E10, E17), and
which end where there are too many (E16)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TypeAlias

from episub_router.protocol.effects import DropReason, MeasureRtt
from episub_router.protocol.hyparview.active_view import Link
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.proximity import farther_neighbor
from episub_router.protocol.messages import Join, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.types import NEVER, PeerId, Time
from episub_router.util.bounded import put_last
from episub_router.util.trickle import Trickle

NEIGHBOR_TIMEOUT = 5.0
"""Seconds until a request counts as refused. Chosen: a dial, an RTT measurement, a round trip."""

GROW_INTERVAL = 2.5
GROW_INTERVAL_MOST = 40.0
"""Seconds between rounds of requests. Measured: of many that ask at a time the nearest is first."""

REFUSED_BACKOFF = 120.0
"""Seconds until a peer that refused is asked again. Measured: a search for the last links asks a
dozen others meanwhile; with 30 s, the nearest few again and again."""

REFUSED_BACKOFF_IN_NEED = 10.0
"""The same with fewer than C_rand links. Chosen: as often as one peer may ask (`rate_limits`)."""

MAX_REFUSED = 64
"""Peers remembered that refused."""

MAX_MEASURING = 64
"""Requests that wait for an RTT at once."""

STABILIZE_INTERVAL = 10.0
STABILIZE_INTERVAL_MOST = 160.0
"""Seconds between rounds of stabilisation. Chosen: a join storm is over by then."""

LIST_TIMEOUT = 1.0
"""Seconds that neighbours have to answer. Chosen: a round trip of 300 ms, with room."""


class LinkPurpose(Enum):
    """What a link is asked for."""

    GROW = "grow"  # To have A of them (E09).
    RING = "ring"  # The peer would be next on a ring.
    NEAR = "near"  # The peer would replace a farther neighbour (E18).
    RECONNECT = "reconnect"  # Its link failed (E02): it gets a JOIN with TTL 0.


Outcome: TypeAlias = Callable[[PeerId, LinkPurpose, bool, Time], bool]
"""Called with the peer asked, what for, whether it accepted, and `now`; returns whether the
connection is still needed."""


class Neighbors:
    """All requests of this node, at most one to a peer, and its answers to others'."""

    __slots__ = (
        "_measuring", "_on_outcome", "_overlay", "_refused_at", "_trickle",
        "_unanswered", "requests",
    )  # fmt: skip

    def __init__(self, overlay: Overlay, on_outcome: Outcome) -> None:
        self._overlay = overlay
        self._on_outcome = on_outcome
        self.requests: dict[PeerId, LinkPurpose] = {}
        """Peers dialled or asked. Bound: A, the sides of rings, and three more."""
        self._refused_at: dict[PeerId, Time] = {}
        """When a peer refused a link, ended one, or didn't answer."""
        self._unanswered: dict[PeerId, None] = {}
        """Peers that haven't answered in time."""
        self._measuring: dict[PeerId, Neighbor] = {}
        """Requests of others that wait for an RTT."""
        self._trickle = Trickle(overlay.rng, GROW_INTERVAL, GROW_INTERVAL_MOST)

    # Asking

    def has_refused(self, peer: PeerId, within: float, now: Time) -> bool:
        return now - self._refused_at.get(peer, -NEVER) < within

    def ask(self, peer: PeerId, purpose: LinkPurpose, kind: LinkKind, now: Time) -> None:
        """Ask `peer` for a link, over a new connection if need be."""
        if peer not in self.requests and peer not in self._overlay.active:
            self.requests[peer] = purpose
            self._overlay.when_connected(peer, partial(self._send_request, peer, kind), now)

    def ask_near(self, peer: PeerId, now: Time) -> bool:
        """Ask `peer` for a near link; False if it has refused lately."""
        refused = self.has_refused(peer, REFUSED_BACKOFF, now)
        if not refused:
            self.ask(peer, LinkPurpose.NEAR, LinkKind.NEAR, now)
        return not refused

    def _send_request(self, peer: PeerId, kind: LinkKind, up: bool, now: Time) -> None:
        overlay = self._overlay
        purpose = self.requests.get(peer)
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
        self.on_refusal(peer, now)
        put_last(self._unanswered, peer, None, MAX_REFUSED)

    def on_refusal(self, peer: PeerId, now: Time) -> None:
        """`peer` has refused, or can't be reached."""
        purpose = self.requests.pop(peer, None)
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
        purpose = self.requests.pop(peer, None)
        if purpose is not None:
            self._overlay.cancel_timer(Timer.REQUEST, peer)
            self._on_outcome(peer, purpose, True, now)

    def on_accept(self, sender: PeerId, accept: Neighbor, join_open: bool, now: Time) -> None:
        """ACCEPT: it counts from a peer that was asked, if late to fill a gap, and, while a JOIN of
        ours is open, until C_rand links stand (E06, E09)."""
        overlay = self._overlay
        params = overlay.params
        link = overlay.active.get(sender)
        purpose = self.requests.get(sender)
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
            overlay.reject(sender, DropReason.UNSOLICITED)

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
        """Ask as many passive peers as links are missing, for near ones the nearest (E09, E17)."""
        overlay = self._overlay
        params, active = overlay.params, overlay.active
        random_missing = params.random_links - active.count(LinkKind.RANDOM)
        if params.ring_links == params.random_links:
            random_missing = 0  # Rings find them.
        missing = max(params.active_size - len(active), random_missing) - len(self.requests)
        if missing <= 0:
            return
        kind = LinkKind.NEAR if params.near_links and random_missing <= 0 else LinkKind.RANDOM
        backoff = REFUSED_BACKOFF_IN_NEED if overlay.is_in_need else REFUSED_BACKOFF
        peers = [
            peer
            for peer in overlay.passive
            if peer not in self.requests and not self.has_refused(peer, backoff, now)
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
            overlay.send_accept(sender, link.kind)
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
            overlay.emit(MeasureRtt(sender))
        else:
            overlay.reject(sender, DropReason.VIEW_FULL)

    def on_rtt(self, peer: PeerId, rtt: float | None, now: Time) -> bool:
        """A peer that asked gets the place of a farther neighbour, or is rejected (E10). True if it
        got one."""
        overlay = self._overlay
        request = self._measuring.pop(peer, None)
        if request is None or peer in overlay.active:
            return False
        if rtt is not None and len(overlay.active) < overlay.params.active_size:
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

    def clear(self) -> None:
        self.requests.clear()
        self._refused_at.clear()
        self._unanswered.clear()
        self._measuring.clear()


class Stabilization:
    """An active view that is too large, as joins make it on purpose (E13), shrinks to A (E16).

    In rounds of three steps a node ends random links that rings no longer need, then asks its
    neighbours for numbers of links, then for lists, and ends links that neither side needs.
    """

    __slots__ = ("_asked_at", "_overlay", "_step", "_trickle")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._trickle = Trickle(overlay.rng, STABILIZE_INTERVAL, STABILIZE_INTERVAL_MOST)
        self._step = 0
        """How often neighbours were asked in this round: for numbers, then for lists."""
        self._asked_at: Time = 0.0

    @property
    def _is_too_large(self) -> bool:
        return len(self._overlay.active) > self._overlay.params.active_size

    def on_change(self, now: Time) -> None:
        if self._is_too_large and not self._overlay.is_set(Timer.STABILIZE):
            self._step = 0
            self._overlay.set_timer(Timer.STABILIZE, self._trickle.start(now))

    def on_timer(self, now: Time) -> None:
        """The next step, or a new round where the last left too many links."""
        overlay = self._overlay
        if self._step == 0:
            self._drop_superseded()
        else:
            self._drop_spare(in_triangles=self._step == 2)
        if not self._is_too_large:
            return
        self._step = (self._step + 1) % 3
        if self._step == 0:
            overlay.set_timer(Timer.STABILIZE, self._trickle.next(now))
            return
        self._asked_at = now
        for peer, link in overlay.active.items():
            overlay.query(peer, link, numbers_only=self._step == 1)
        overlay.set_timer(Timer.STABILIZE, now + LIST_TIMEOUT)

    def _drop_superseded(self) -> None:
        """Random links whose place on a ring others have: the other end has found its own."""
        overlay = self._overlay
        if overlay.params.ring_links == overlay.params.random_links:
            for peer, link in list(overlay.active.items()):
                if link.kind is LinkKind.RANDOM:
                    self._drop(peer, link)

    def _drop_spare(self, *, in_triangles: bool) -> None:
        """First links to peers that have more than C_rand random ones, then sides of triangles."""
        overlay = self._overlay
        links = overlay.active.items()
        answered = [(peer, link) for peer, link in links if link.answered_at >= self._asked_at]
        # Peers with the most links first: both sides gain. Among those, the farthest.
        overlay.rng.shuffle(answered)
        answered.sort(key=_by_spare_links)
        for peer, link in answered:
            if link.random_links > overlay.params.random_links:
                self._drop(peer, link)
        for peer, link in answered if in_triangles else ():
            if any(other in overlay.active for other in link.peers):
                self._drop(peer, link)

    def _drop(self, peer: PeerId, link: Link) -> None:
        """End the link, unless this node needs it for its size, its rings or its kinds."""
        overlay = self._overlay
        params = overlay.params
        if peer not in overlay.active or not self._is_too_large or peer in overlay.kept_links():
            return
        if link.kind is LinkKind.RANDOM:
            spare = overlay.has_spare_random_link
        else:
            spare = overlay.active.count(LinkKind.NEAR) > params.near_links
        if spare:
            overlay.evict(peer)


def _by_spare_links(entry: tuple[PeerId, Link]) -> tuple[int, float]:
    return -entry[1].links, -entry[1].distance
